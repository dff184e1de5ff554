// monarchctl dataset: what the catalog holds.
#include "cli/cli.h"
#include "core/config.h"
#include "core/options.h"

namespace monarch::cli {
namespace {

int list(const Context& context) {
    Result<Catalog> catalog = load_catalog(context.config_dir);
    if (!catalog) return fail(catalog.error());
    if (!catalog->present)
        return fail("no catalog: " + printable(context.config_dir) +
                    "/datasets.d is missing: add it, or name data sets by their paths");
    Table table{
        "datasets",
        {{"name", "NAME"}, {"source", "SOURCE"}, {"manifest", "MANIFEST"}, {"description", "DESCRIPTION"}},
        {}};
    for (const auto& [name, entry] : catalog->entries)
        table.rows.push_back({text_cell(name), text_cell(entry.source), text_cell(entry.manifest),
                              text_cell(entry.description)});
    return print_tables({table}, context.json);
}

int show(const Context& context, const std::string& name) {
    Result<Catalog> catalog = load_catalog(context.config_dir);
    if (!catalog) return fail(catalog.error());
    const CatalogEntry* entry = catalog->find(name);
    Result<std::vector<DatasetSpec>> spec = parse_datasets(name);
    if (!entry || !spec)
        return fail("no data set " + brief(name) + " in the catalog: see `monarchctl dataset list`");
    Table table{"datasets",
                {{"name", "name"},
                 {"variable", "variable"},
                 {"source", "source"},
                 {"manifest", "manifest"},
                 {"description", "description"},
                 {"file", "defined in"}},
                {{text_cell(entry->name), text_cell(spec->front().variable), text_cell(entry->source),
                  text_cell(entry->manifest), text_cell(entry->description), text_cell(entry->file)}}};
    return print_record(table, context.json);
}

}  // namespace

void add_dataset(CLI::App& app, Context& context) {
    CLI::App* command = app.add_subcommand("dataset", "The catalog: data sets that have a name");
    command->require_subcommand(1);
    command->footer(
        "Examples:\n"
        "  monarchctl dataset list\n"
        "  monarchctl dataset show imagenet --json");

    CLI::App* list_command = command->add_subcommand("list", "Print the catalog");
    add_json_flag(*list_command, context);
    list_command->footer("Examples:\n  monarchctl dataset list --json");
    list_command->callback([&context] { context.action = [&context] { return list(context); }; });

    CLI::App* show_command = command->add_subcommand("show", "Print all that is known of one data set");
    auto name = std::make_shared<std::string>();
    show_command->add_option("NAME", *name, "Its name in the catalog")->required()->type_name("");
    add_json_flag(*show_command, context);
    show_command->footer("Examples:\n  monarchctl dataset show imagenet");
    show_command->callback(
        [name, &context] { context.action = [name, &context] { return show(context, *name); }; });
}

}  // namespace monarch::cli
