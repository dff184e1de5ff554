// A session as its stager sees it: page and ring mapped, waiting decided, opens counted.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "core/fields.h"
#include "core/result.h"
#include "core/shm.h"

namespace monarch {

class Session {
  public:
    // `message`: what attach put into the inbox (stager/attach.cc): session, job, wait, wait_percent,
    // wait_limit_s, results. Errors: the session's folder is gone, page or ring are not what attach made.
    static Result<std::unique_ptr<Session>> open(const Fields& message);
    ~Session();
    Session(const Session&) = delete;

    monarch_page& page() { return *page_; }
    const std::string& job() const { return job_; }
    const std::string& results() const { return results_; }
    int64_t attached_at() const { return attached_at_; }
    bool ended() const;
    // One line for the job's output, in the session's `note` file: why nothing is staged.
    void note(const std::string& why);

    // Decides whether first opens wait, from what is known now.
    struct Progress {
        bool planned = false;      // the plan is made
        bool finished = false;     // nothing more will be staged
        uint64_t files_seen = 0;   // by the listing, so far
        uint64_t files_total = 0;  // once planned
        uint64_t bytes_planned = 0, bytes_staged = 0;
    };
    void decide_wait(const Progress& p);

    // Hands every complete record to `each`, in order.
    void drain(const std::function<void(const monarch_record&)>& each);

    // Where each process is in the predicted order, for prediction_hits: process → place after its last open.
    std::unordered_map<uint32_t, uint32_t> place;
    // It came when the data set was listed already, and nobody has looked since whether that still holds.
    bool wants_check = false;

  private:
    Session() = default;
    void set_wait(uint32_t wait);

    std::string dir_, job_, results_;
    int64_t attached_at_ = 0;
    bool wait_auto_ = false, wait_none_ = false;
    unsigned wait_percent_ = 0;
    uint64_t opened_ns_ = 0;
    uint64_t torn_since_ns_ = 0;
    monarch_page* page_ = nullptr;
    monarch_ring* ring_ = nullptr;
};

}  // namespace monarch
