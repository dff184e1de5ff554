// monarchctl plan: what would be staged where, in which order, without copying.
#include "stager/plan.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>

#include "cli/cli.h"
#include "cli/session.h"
#include "core/config.h"
#include "core/options.h"
#include "core/tier.h"
#include "core/units.h"
#include "stager/order/order.h"
#include "stager/source/source.h"

namespace monarch::cli {
namespace {

struct PlanOptions {
    std::string dataset, order = "auto", capacity, ranks, node;
    bool sequence = false, nul = false;
    unsigned files = 10;
};

struct PlanSource {
    std::string path, manifest;
};

Result<PlanSource> source_of(const std::string& text, const Context& context) {
    auto specs = parse_datasets(datasets_from_here(text, context));
    if (!specs) return Error{specs.error()};
    if (specs->size() != 1) return Error{"one data set at a time: name one"};
    const DatasetSpec& spec = specs->front();
    if (spec.kind == SpecKind::path) return PlanSource{spec.path, ""};
    if (spec.kind == SpecKind::url) return Error{"URL sources are not served by this version: use a path"};
    auto catalog = load_catalog(context.config_dir);
    if (!catalog) return Error{catalog.error()};
    const CatalogEntry* entry = catalog->find(spec.name);
    if (!entry) return Error{"no data set " + spec.name + " in the catalog: see `monarchctl dataset list`"};
    return PlanSource{entry->source, entry->manifest};
}

Result<Manifest> manifest_of(const PlanSource& from) {
    if (!from.manifest.empty()) return read_manifest(from.manifest);
    auto source = posix_source(from.path, 8);
    Manifest manifest;
    Listing listing;
    if (auto canonical = source->canonical(); !canonical) return Error{canonical.error()};
    if (Status s = source->list(manifest, listing); !s.ok()) return Error{s.error()};
    manifest.sort();
    return manifest;
}

struct PlanTier {
    std::string name;
    uint64_t capacity;
};

// What `monarchctl run` uses when no tier is given: half of the temporary folder's file system.
PlanTier run_tier() {
    std::string folder = user_tier_path();
    struct statvfs fs;
    bool known = statvfs(folder.substr(0, folder.rfind('/')).c_str(), &fs) == 0;
    return {"tmp", known ? static_cast<uint64_t>(fs.f_blocks) * fs.f_frsize / 2 : 0};
}

// The configured tiers that are ready, or that of `monarchctl run` where nothing is configured, cut to
// --capacity.
Result<std::vector<PlanTier>> tiers_for(const PlanOptions& options, const Context& context) {
    std::vector<PlanTier> tiers;
    auto config = load_config(context.config_dir, options.node);
    if (config) {
        for (const auto& t : config->tiers)
            if (TierState state = inspect_tier(t, *config); state.ready)
                tiers.push_back({t.name, state.capacity_bytes});
    } else if (access((context.config_dir + "/monarch.toml").c_str(), F_OK) == 0) {
        return Error{config.error()};
    } else {
        tiers.push_back(run_tier());
    }
    if (options.capacity.empty()) return tiers;
    auto capacity = parse_capacity(options.capacity);
    if (!capacity) return Error{"--capacity=" + brief(options.capacity) + ": " + capacity.error()};
    uint64_t whole = 0;
    for (const auto& t : tiers) whole += t.capacity;
    uint64_t total = capacity->total.of(whole);
    for (auto& t : tiers) {
        auto named = capacity->by_tier.find(t.name);
        if (!capacity->by_tier.empty()) {
            t.capacity =
                named == capacity->by_tier.end() ? 0 : std::min(t.capacity, named->second.of(t.capacity));
            continue;
        }
        t.capacity = std::min(t.capacity, total);
        total -= t.capacity;
    }
    return tiers;
}

void print_sequence(const Manifest& manifest, const std::vector<uint32_t>& sequence, bool nul) {
    for (uint32_t id : sequence) {
        std::string path = nul ? std::string(manifest.path(id)) : printable(manifest.path(id));
        fwrite(path.data(), 1, path.size(), stdout);
        putchar(nul ? '\0' : '\n');
    }
}

int plan(const PlanOptions& options, const Context& context) {
    auto order = parse_order(options.order);
    if (!order) return misuse("--order=" + brief(options.order) + ": " + order.error());
    auto source = source_of(options.dataset, context);
    if (!source) return misuse(source.error());
    auto tiers = tiers_for(options, context);
    if (!tiers) return misuse(tiers.error());
    auto listed = manifest_of(*source);
    if (!listed) return fail(listed.error());
    const Manifest& manifest = *listed;
    Prediction prediction = predict(*order, manifest);
    if (options.sequence) {
        print_sequence(manifest, prediction.sequence, options.nul);
        return fflush(stdout) == 0 ? 0 : fail("cannot write: check the output");
    }
    if (tiers->empty()) return fail("no tier of this node is ready: see `monarchctl tier list`");
    std::vector<Room> room;
    auto fixed = fixed_space(manifest, tiers->size());
    for (const auto& t : *tiers) room.push_back({t.capacity - std::min(t.capacity, fixed[room.size()])});
    Plan p = make_plan(manifest, prediction.sequence, room, {});
    Table total{"plan",
                {{"dataset", "DATASET"},
                 {"predictor", "PREDICTOR"},
                 {"files_total", "FILES", true},
                 {"bytes_total", "BYTES", true},
                 {"files_planned", "FILES PLANNED", true},
                 {"bytes_planned", "BYTES PLANNED", true}},
                {}};
    total.rows.push_back({text_cell(options.dataset), text_cell(prediction.predictor),
                          number_cell(manifest.size()), bytes_cell(manifest.total_bytes()),
                          number_cell(p.files), bytes_cell(p.bytes)});
    Table by_tier{"tiers",
                  {{"name", "TIER"},
                   {"capacity_bytes", "CAPACITY", true},
                   {"files_planned", "FILES PLANNED", true},
                   {"bytes_planned", "BYTES PLANNED", true}},
                  {}};
    for (size_t t = 0; t < tiers->size(); t++) {
        uint64_t files = 0, bytes = 0;
        for (const auto& c : p.copies)
            if (c.tier == t) files++, bytes += manifest.bytes(c.file);
        by_tier.rows.push_back({text_cell((*tiers)[t].name), bytes_cell((*tiers)[t].capacity),
                                number_cell(files), bytes_cell(bytes)});
    }
    Table first{"first_files", {{"path", "FIRST FILES"}, {"bytes", "BYTES", true}, {"tier", "TIER"}}, {}};
    for (size_t n = 0; n < p.copies.size() && n < options.files; n++)
        first.rows.push_back({text_cell(manifest.path(p.copies[n].file)),
                              bytes_cell(manifest.bytes(p.copies[n].file)),
                              text_cell((*tiers)[p.copies[n].tier].name)});
    return print_tables({total, by_tier, first}, context.json);
}

}  // namespace

void add_plan(CLI::App& app, Context& context) {
    CLI::App* command =
        app.add_subcommand("plan", "What would be staged where, in which order, without copying");
    command->footer(
        "Examples:\n"
        "  monarchctl plan imagenet --capacity 100GiB\n"
        "  monarchctl plan /data/images --order name --sequence | head\n"
        "  monarchctl plan /data/images --sequence -0 | xargs -0 -n1 basename");
    auto o = std::make_shared<PlanOptions>();
    o->node = this_node();
    command->add_option("dataset", o->dataset, "Catalog name or path; a relative path counts from here")
        ->type_name("SPEC")
        ->required();
    command->add_option("--order", o->order, "auto, manifest or name")
        ->type_name("ORDER")
        ->capture_default_str();
    command->add_option("--capacity", o->capacity, "At most this much")->type_name("SIZE|TIER=SIZE[,...]");
    command->add_option("--files", o->files, "How many of the first files to show")
        ->type_name("N")
        ->capture_default_str();
    command->add_option("--node", o->node, "Slurm's name of this node, for %n in the configuration")
        ->type_name("NAME")
        ->capture_default_str();
    auto* sequence =
        command->add_flag("--sequence", o->sequence, "Print the whole predicted order, one path a line");
    command->add_flag("-0,--null", o->nul, "With --sequence: paths as they are, each ended by a NUL byte")
        ->needs(sequence);
    add_json_flag(*command, context);
    command->callback([=, &context] { context.action = [=, &context] { return plan(*o, context); }; });
}

}  // namespace monarch::cli
