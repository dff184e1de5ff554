#include "stager/copy.h"

#include <cerrno>
#include <chrono>
#include <cstring>

namespace monarch {

void Throttle::take(uint64_t bytes, const std::atomic<bool>& stop) {
    if (rate_ == 0) return;
    uint64_t until;
    {
        std::lock_guard lock(mutex_);
        free_at_ns_ = std::max(free_at_ns_, monotonic_ns());
        until = free_at_ns_;
        free_at_ns_ += static_cast<uint64_t>(static_cast<double>(bytes) * 1e9 / static_cast<double>(rate_));
    }
    while (!stop && monotonic_ns() < until)
        std::this_thread::sleep_for(
            std::chrono::nanoseconds(std::min<uint64_t>(until - monotonic_ns(), 20000000)));
}

Copier::Copier(Source& source, const Manifest& manifest, std::vector<std::unique_ptr<TierStore>>& tiers,
               unsigned streams, uint64_t bytes_per_s)
    : source_(source), manifest_(manifest), tiers_(tiers), streams_(streams), throttle_(bytes_per_s) {}

void Copier::start() {
    running_ = streams_;
    // Detached: a stream can hang in the source for ever and must not hold up the end of the process.
    for (unsigned n = 0; n < streams_; n++) std::thread([this] { stream(); }).detach();
}

void Copier::add(const std::vector<Placement>& copies) {
    std::lock_guard lock(mutex_);
    queue_.insert(queue_.end(), copies.begin(), copies.end());
    changed_.notify_all();
}

std::vector<Placement> Copier::withdraw() {
    std::lock_guard lock(mutex_);
    std::vector<Placement> left(queue_.begin(), queue_.end());
    queue_.clear();
    return left;
}

bool Copier::finished() {
    std::lock_guard lock(mutex_);
    return queue_.empty() && copying_ == 0;
}

void Copier::stop() {
    std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
}

void Copier::stream() {
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [this] { return stop_ || !queue_.empty(); });
        if (stop_) break;
        Placement p = queue_.front();
        queue_.pop_front();
        copying_++;
        lock.unlock();
        CopyResult r = copy(p);
        lock.lock();
        copying_--;
        if (stop_ && r.what == Copied::failed) break;
        results_.push_back(std::move(r));
    }
    // Last: whoever waits for it may end the process, or this object.
    lock.unlock();
    running_--;
}

CopyResult Copier::copy(Placement p) {
    // A tier that ran full passes its files on to the next one with room, if any: the plan left none, the
    // disk may.
    for (; p.tier < tiers_.size(); p.tier++) {
        if (tiers_[p.tier]->full()) continue;
        CopyResult r = copy_to(p);
        if (r.what != Copied::failed || !tiers_[p.tier]->full()) return r;
    }
    return {p.file, no_tier, Copied::failed, false, "no space left on the tiers"};
}

CopyResult Copier::copy_to(Placement p) {
    TierStore& tier = *tiers_[p.tier];
    std::string temporary;
    auto failed = [&](bool read, std::string why) {
        return CopyResult{p.file, no_tier, Copied::failed, read, std::move(why)};
    };
    Fd out = tier.create(temporary);
    if (!out) {
        if (errno == ENOSPC || errno == EDQUOT) tier.set_full();
        return failed(false, "tier " + tier.name() + ": " + strerror(errno));
    }
    errno = 0;
    throttle_.take(0, stop_);
    // A file that has grown must not take space that is not reserved, and one that grows for ever must not
    // hold a stream.
    uint64_t copied = 0, reserved = space_of(manifest_.bytes(p.file));
    auto fetched = source_.fetch(manifest_.path(p.file), out.get(), [&](uint64_t bytes) {
        throttle_.take(bytes, stop_);
        copied += bytes;
        return !stop_ && space_of(copied) <= reserved;
    });
    if (!fetched) {
        if (errno == ENOSPC || errno == EDQUOT) tier.set_full();
        tier.discard(temporary);
        return failed(true, space_of(copied) > reserved
                                ? "larger than when it was listed, and no space is reserved for that"
                                : fetched.error());
    }
    if (space_of(fetched->size) > reserved) {
        tier.discard(temporary);
        return failed(true, "larger than when it was listed, and no space is reserved for that");
    }
    switch (tier.publish(out.get(), temporary, manifest_.path(p.file), *fetched)) {
        case Publish::done:
            return {p.file, p.tier, Copied::staged, true, ""};
        case Publish::taken:
            return {p.file, no_tier, Copied::retired, true, ""};
        case Publish::full:
            tier.set_full();
            [[fallthrough]];
        case Publish::failed:
            break;
    }
    return failed(true, "tier " + tier.name() + ": " + strerror(errno));
}

std::vector<CopyResult> Copier::take_results() {
    std::lock_guard lock(mutex_);
    return std::exchange(results_, {});
}

bool Copier::wait_stopped(unsigned milliseconds) {
    uint64_t until = monotonic_ns() + uint64_t{milliseconds} * 1000000;
    while (running_ > 0 && monotonic_ns() < until) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return running_ == 0;
}

}  // namespace monarch
