// mkdataset: makes a data set of class folders whose file sizes are spread as ImageNet's are, for tests.
#include <fcntl.h>
#include <getopt.h>
#include <unistd.h>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <numbers>
#include <string>
#include <vector>

namespace {

struct Options {
    uint64_t files = 2000, classes = 20, mean_bytes = 110000, seed = 1;
    std::string directory;
};

// splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014).
class Random {
  public:
    explicit Random(uint64_t seed) : state_(seed) {}

    uint64_t next() {
        uint64_t z = state_ += 0x9e3779b97f4a7c15;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
        return z ^ (z >> 31);
    }
    double uniform() { return ((next() >> 11) + 1) * 0x1p-53; }  // in (0, 1]

    // Box and Muller's way, since std::normal_distribution differs between libraries.
    double normal() {
        double radius = std::sqrt(-2 * std::log(uniform()));
        return radius * std::cos(2 * std::numbers::pi * uniform());
    }

  private:
    uint64_t state_;
};

// A log-normal size with the given mean; this sigma makes a mean of 110 KB a median of 94 KB, as in ImageNet.
uint64_t file_size(Random& random, double mean) {
    constexpr double kSigma = 0.56;
    double mu = std::log(mean) - kSigma * kSigma / 2;
    return std::max<uint64_t>(1, std::llround(std::exp(mu + kSigma * random.normal())));
}

// A stream of its own for each file, so that no file holds a piece of another.
Random stream_of(uint64_t seed, uint64_t number) {
    return Random(Random(Random(seed).next() + number).next());
}

void fill(Random& random, std::vector<uint64_t>& words, uint64_t bytes) {
    words.resize((bytes + 7) / 8);
    for (uint64_t& word : words) word = random.next();
}

bool write_file(const std::string& path, const char* data, size_t size) {
    int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    bool ok = fd >= 0;
    while (ok && size > 0) {
        ssize_t written = write(fd, data, size);
        ok = written > 0;
        if (ok) data += written, size -= written;
    }
    if (fd >= 0) ok = close(fd) == 0 && ok;
    if (!ok) fprintf(stderr, "mkdataset: %s: %s\n", path.c_str(), strerror(errno));
    return ok;
}

std::string class_folder(const Options& options, uint64_t number) {
    char name[32];
    snprintf(name, sizeof name, "/train/n%04ju", static_cast<uintmax_t>(number));
    return options.directory + name;
}

bool make_folders(const Options& options) {
    std::error_code error;
    // A set that is there already would be mixed with the new one.
    if (std::filesystem::exists(options.directory + "/train", error))
        error = std::make_error_code(std::errc::file_exists);
    for (uint64_t i = 0; i < options.classes && !error; i++) {
        std::filesystem::create_directories(class_folder(options, i), error);
    }
    if (error)
        fprintf(stderr, "mkdataset: %s/train: %s\n", options.directory.c_str(), error.message().c_str());
    return !error;
}

// The classes are as equal as can be, and the files' numbers follow the order of the names.
bool make_files(const Options& options, uint64_t& total_bytes) {
    std::vector<uint64_t> words;
    for (uint64_t i = 0; i < options.files; i++) {
        Random random = stream_of(options.seed, i);
        uint64_t bytes = file_size(random, options.mean_bytes);
        fill(random, words, bytes);
        char name[32];
        snprintf(name, sizeof name, "/img_%06ju.jpg", static_cast<uintmax_t>(i + 1));
        std::string folder = class_folder(options, i * options.classes / options.files);
        if (!write_file(folder + name, reinterpret_cast<const char*>(words.data()), bytes)) return false;
        total_bytes += bytes;
    }
    return true;
}

void print_help() {
    printf(
        "usage: mkdataset [options] DIR\n\n"
        "Makes DIR/train/n0000/img_000001.jpg and so on: files of random bytes, no two alike.\n\n"
        "  --files=N        how many files (2000)\n"
        "  --classes=N      in how many folders (20)\n"
        "  --mean-bytes=N   their mean size (110000)\n"
        "  --seed=N         the same seed makes the same bytes (1)\n"
        "  --help           this text\n");
}

bool parse_number(const char* text, uint64_t& value) {
    auto [end, error] = std::from_chars(text, text + strlen(text), value);
    return error == std::errc() && *text && *end == 0;
}

bool parse(int argc, char** argv, Options& options) {
    const option table[] = {{"files", required_argument, nullptr, 'f'},
                            {"classes", required_argument, nullptr, 'c'},
                            {"mean-bytes", required_argument, nullptr, 'm'},
                            {"seed", required_argument, nullptr, 's'},
                            {"help", no_argument, nullptr, 'h'},
                            {}};
    bool ok = true;
    for (int got; ok && (got = getopt_long(argc, argv, "", table, nullptr)) != -1;) {
        if (got == 'h') {
            print_help();
            exit(0);
        }
        ok = (got == 'f' && parse_number(optarg, options.files)) ||
             (got == 'c' && parse_number(optarg, options.classes)) ||
             (got == 'm' && parse_number(optarg, options.mean_bytes)) ||
             (got == 's' && parse_number(optarg, options.seed));
    }
    ok = ok && argc - optind == 1 && options.classes > 0 && options.mean_bytes > 0;
    if (ok) options.directory = argv[optind];
    if (!ok) fprintf(stderr, "mkdataset: wrong call: try mkdataset --help\n");
    return ok;
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    if (!parse(argc, argv, options)) return 2;
    uint64_t bytes = 0;
    if (!make_folders(options) || !make_files(options, bytes)) return 1;
    printf("%ju files, %ju bytes\n", static_cast<uintmax_t>(options.files), static_cast<uintmax_t>(bytes));
}
