#include "core/config.h"
#include "core/config_toml.h"

namespace monarch {
namespace {

// An absolute path or a URL, in its clean form.
Result<std::string> source_text(const std::string& text) {
    if (text.find(',') != std::string::npos && text[0] == '/') return clean_path(text);
    Result<std::vector<DatasetSpec>> specs = parse_datasets(text);
    if (!specs) return Error{specs.error()};
    const DatasetSpec& spec = specs->front();
    if (specs->size() != 1 || spec.kind == SpecKind::catalog)
        return Error{brief(text) + " is neither an absolute path nor a URL: use /path or s3://bucket/prefix"};
    return spec.kind == SpecKind::path ? spec.path : spec.text;
}

Result<CatalogEntry> read_entry(const std::string& file, const std::string& name, const TomlValue& value) {
    TomlTable table(file, value);
    CatalogEntry entry;
    entry.name = name;
    entry.file = file;
    entry.source = table.parsed("source", source_text).value_or("");
    entry.manifest = table.parsed("manifest", source_text).value_or("");
    entry.description = table.text("description").value_or("");
    if (!value.find("source")) table.fail("source", "missing: say where the data set lies");
    if (!valid_dataset_name(name) || name == "list")
        table.fail_at(value.line, brief(name) +
                                      " cannot be a data set's name: use letters, digits, . _ and -, " +
                                      "beginning with a letter or digit, and not 'list'");
    Status status = table.finish();
    return status ? Result<CatalogEntry>(entry) : Error{status.error()};
}

Status read_catalog_file(const std::string& file, Catalog& catalog) {
    Result<TomlValue> toml = read_toml(file);
    if (!toml) return Error{toml.error()};
    TomlTable root(file, *toml);
    const TomlValue* datasets = root.table("dataset");
    if (Status whole = root.finish(); !whole || !datasets) return whole;
    for (const auto& [name, value] : datasets->keys) {
        if (value.kind != TomlValue::table)
            return toml_error(
                file, value.line,
                printable(name) + " is not a table: begin it with [dataset." + printable(name) + "]");
        Result<CatalogEntry> entry = read_entry(file, name, value);
        if (!entry) return Error{entry.error()};
        auto [there, is_new] = catalog.entries.emplace(name, *entry);
        if (!is_new)
            return toml_error(
                file, value.line,
                name + " is already in " + printable(there->second.file) + ": remove or rename one");
    }
    return Done{};
}

}  // namespace

const CatalogEntry* Catalog::find(const std::string& name) const {
    auto entry = entries.find(name);
    return entry == entries.end() ? nullptr : &entry->second;
}

Result<Catalog> load_catalog(const std::string& dir) {
    Catalog catalog;
    Result<std::vector<std::string>> files = toml_files(dir + "/datasets.d", catalog.present);
    if (!files) return Error{files.error()};
    for (const std::string& file : *files)
        if (Status read = read_catalog_file(file, catalog); !read) return Error{read.error()};
    return catalog;
}

Result<Catalog> load_catalog_file(const std::string& file) {
    Catalog catalog;
    catalog.present = true;
    Status read = read_catalog_file(file, catalog);
    return read ? Result<Catalog>(catalog) : Error{read.error()};
}

}  // namespace monarch
