#include "stager/session.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

#include "core/os.h"

namespace monarch {

namespace {
// A data set of fewer files is worth waiting for: each is opened once, or stays open where it was opened.
constexpr uint64_t few_files = 64;
constexpr uint64_t undecided_ns = 1000000000;
// A record that a killed process began stays unfinished; one that a running process writes takes nanoseconds.
constexpr uint64_t torn_ns = 1000000000;

void* map_file(const std::string& path, size_t bytes) {
    Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    struct stat st;
    if (!fd || fstat(fd.get(), &st) != 0 || static_cast<size_t>(st.st_size) < bytes) return nullptr;
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    return at == MAP_FAILED ? nullptr : at;
}
}  // namespace

Result<std::unique_ptr<Session>> Session::open(const Fields& message) {
    std::unique_ptr<Session> s(new Session);
    const std::string& dir = s->dir_ = message.get("session");
    s->attached_at_ = strtoll(message.get("attached_at", "0").c_str(), nullptr, 10);
    s->job_ = message.get("job");
    s->results_ = message.get("results");
    s->wait_auto_ = message.get("wait") == "auto";
    s->wait_none_ = message.get("wait") == "none";
    s->wait_percent_ = static_cast<unsigned>(strtoul(message.get("wait_percent", "0").c_str(), nullptr, 10));
    s->opened_ns_ = monotonic_ns();
    s->page_ = static_cast<monarch_page*>(map_file(dir + "/page", sizeof(monarch_page)));
    s->ring_ = static_cast<monarch_ring*>(map_file(dir + "/ring", sizeof(monarch_ring)));
    if (!s->page_ || !s->ring_) return Error{"session " + dir + " is gone"};
    return s;
}

Session::~Session() {
    if (page_) munmap(page_, sizeof *page_);
    if (ring_) munmap(ring_, sizeof *ring_);
}

bool Session::ended() const {
    return __atomic_load_n(&page_->ended, __ATOMIC_ACQUIRE) != 0;
}

void Session::note(const std::string& why) {
    // attach made the file: the folder is root's.
    Fd fd(::open((dir_ + "/note").c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOFOLLOW));
    if (fd) write_all(fd.get(), why + "\n");
}

void Session::set_wait(uint32_t wait) {
    if (__atomic_exchange_n(&page_->wait, wait, __ATOMIC_RELEASE) == wait) return;
    syscall(SYS_futex, &page_->wait, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Session::decide_wait(const Progress& p) {
    if (p.finished || wait_none_) return set_wait(MONARCH_WAIT_GO);
    if (wait_auto_) {
        bool many = p.files_seen >= few_files || (p.planned && p.files_total >= few_files);
        if (many || (!p.planned && monotonic_ns() - opened_ns_ > undecided_ns))
            return set_wait(MONARCH_WAIT_GO);
        if (p.planned && page_->wait == MONARCH_WAIT_UNDECIDED) set_wait(MONARCH_WAIT_HOLD);
        return;
    }
    // Compared in double: the product of bytes and percent could pass 64 bits.
    bool reached =
        p.planned && wait_percent_ > 0 &&
        static_cast<double>(p.bytes_staged) * 100.0 >= static_cast<double>(p.bytes_planned) * wait_percent_;
    set_wait(reached ? MONARCH_WAIT_GO : MONARCH_WAIT_HOLD);
}

void Session::drain(const std::function<void(const monarch_record&)>& each) {
    uint64_t head = __atomic_load_n(&ring_->head, __ATOMIC_ACQUIRE);
    uint64_t tail = page_->ring_tail;
    if (head - tail > MONARCH_RING_SLOTS) {  // overwritten, or nonsense that the job wrote
        page_->ring_lost += head - tail - MONARCH_RING_SLOTS;
        tail = head - MONARCH_RING_SLOTS;
        torn_since_ns_ = 0;
    }
    for (; tail != head; tail++) {
        monarch_record& slot = ring_->slot[tail % MONARCH_RING_SLOTS];
        uint64_t seq = __atomic_load_n(&slot.seq, __ATOMIC_ACQUIRE);
        monarch_record copy = slot;
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        bool complete = seq == tail + 1 && __atomic_load_n(&slot.seq, __ATOMIC_RELAXED) == seq;
        if (complete) {
            torn_since_ns_ = 0;
            each(copy);
            continue;
        }
        if (torn_since_ns_ == 0) torn_since_ns_ = monotonic_ns();
        if (monotonic_ns() - torn_since_ns_ < torn_ns && !ended()) break;
        torn_since_ns_ = 0;
        page_->ring_lost++;
    }
    page_->ring_tail = tail;
}

}  // namespace monarch
