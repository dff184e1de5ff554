// monarchctl wait: inside a job, until its data sets are staged.
#include <chrono>
#include <cstdlib>
#include <thread>

#include "cli/cli.h"
#include "cli/session.h"
#include "core/options.h"
#include "core/os.h"
#include "core/request.h"
#include "core/units.h"

namespace monarch::cli {
namespace {

enum class Answer { not_yet, reached, over };

// Whether `percent` of what is planned is staged in this session, or never will be.
Answer look(const std::string& session, unsigned percent) {
    auto page = read_session_page(session);
    if (!page || page->ended) return Answer::over;
    if (page->state == MONARCH_STAGED) return Answer::reached;
    if (page->state == MONARCH_FAILED) return Answer::over;
    const auto& c = page->counters;
    if (page->state == MONARCH_COPYING && percent < 100 &&
        static_cast<double>(c.bytes_staged) * 100.0 >= static_cast<double>(c.bytes_planned) * percent)
        return Answer::reached;
    auto map = read_map(session);
    return map && stager_lives(*map) ? Answer::not_yet : Answer::over;
}

int wait(const std::string& when) {
    auto parsed = parse_wait(when);
    if (!parsed) return misuse("wait: " + parsed.error());
    unsigned percent = parsed->percent ? parsed->percent : 100;
    if (parsed->kind == Wait::none) return 0;
    const char* job = getenv(session_variable);
    if (!job || !*job)
        return fail("MONARCH_SESSION is not set: call this inside a job with --monarch-dataset");
    auto sessions = sessions_of(job);
    if (sessions.empty()) return fail("nothing is staged for this job: see the job's output for why");
    uint64_t until = parsed->limit_s ? monotonic_ns() + parsed->limit_s * 1'000'000'000 : UINT64_MAX;
    for (const auto& session : sessions) {
        Answer answer;
        while ((answer = look(session, percent)) == Answer::not_yet) {
            if (monotonic_ns() > until)
                return fail("not staged within " + format_duration(parsed->limit_s) +
                            ": opens go on reaching what is there");
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
        }
        if (answer == Answer::over)
            return fail("a data set cannot be staged any more: see monarchctl status");
    }
    return 0;
}

}  // namespace

void add_wait(CLI::App& app, Context& context) {
    CLI::App* command = app.add_subcommand("wait", "Inside a job: wait until its data sets are staged");
    command->footer(
        "Exit status: 0 staged so far, 1 not in time or not any more.\n"
        "Examples:\n"
        "  monarchctl wait            until the whole plan is staged\n"
        "  monarchctl wait 60%,5m     until 60 % of it is, five minutes at most");
    auto when = std::make_shared<std::string>("all");
    command->add_option("when", *when, "all, a share of the planned bytes, a time, or both")
        ->type_name("all|60%|5m|60%,5m")
        ->capture_default_str();
    command->callback([=, &context] { context.action = [=] { return wait(*when); }; });
}

}  // namespace monarch::cli
