// The copy engine: streams that take placements from a queue, first come first served, fetch each file from
// the source and publish it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "stager/manifest.h"
#include "stager/plan.h"
#include "stager/source/source.h"
#include "stager/tiers.h"

namespace monarch {

// Lets through so many bytes a second, over all streams.
class Throttle {
  public:
    explicit Throttle(uint64_t bytes_per_s) : rate_(bytes_per_s) {}
    // Blocks until `bytes` more may flow or `stop` is set.
    void take(uint64_t bytes, const std::atomic<bool>& stop);

  private:
    const uint64_t rate_;  // 0 = no limit
    std::mutex mutex_;
    uint64_t free_at_ns_ = 0;
};

enum class Copied { staged, retired, failed };
struct CopyResult {
    uint32_t file;
    uint8_t tier;  // where it is staged
    Copied what;
    bool read;        // its bytes were read from the source
    std::string why;  // of a failure
};

class Copier {
  public:
    Copier(Source& source, const Manifest& manifest, std::vector<std::unique_ptr<TierStore>>& tiers,
           unsigned streams, uint64_t bytes_per_s);
    ~Copier() { stop(); }
    // Starts the streams. Called once.
    void start();
    // Puts copies at the end of the queue.
    void add(const std::vector<Placement>& copies);
    // Takes what no stream has begun from the queue again.
    std::vector<Placement> withdraw();
    // Results since the last call, in the order they happened.
    std::vector<CopyResult> take_results();
    // Every copy has its result (which take_results() has handed out or will).
    bool finished();
    // Ends after the blocks in flight. A stream that hangs in the source is left alone: it holds the process,
    // so the caller ends with _exit().
    void stop();
    // Waits for the streams up to `milliseconds`; whether all have ended.
    bool wait_stopped(unsigned milliseconds);

  private:
    void stream();
    CopyResult copy(Placement p);
    CopyResult copy_to(Placement p);

    Source& source_;
    const Manifest& manifest_;
    std::vector<std::unique_ptr<TierStore>>& tiers_;
    unsigned streams_;
    Throttle throttle_;
    std::atomic<bool> stop_{false};
    std::atomic<unsigned> running_{0};
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Placement> queue_;
    size_t copying_ = 0;
    std::vector<CopyResult> results_;
};

}  // namespace monarch
