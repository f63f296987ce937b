// A CSV or TSV with named columns, in any order.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <span>

#include "sotto/core/error.h"
#include "sotto/core/nearest.h"
#include "sotto/data/import/import_sources.h"
#include "sotto/data/text/table_reader.h"

namespace sotto::data {

namespace {

namespace fs = std::filesystem;

// Usual names of a column, the most likely first.
constexpr std::array<std::string_view, 15> kAudioNames = {
    "audio_filepath", "audio_path", "audio_file",   "audio",    "file_name", "filename",
    "filepath",       "file_path",  "wav_filename", "wav_path", "wav",       "clip",
    "path",           "file",       "recording"};
constexpr std::array<std::string_view, 9> kTextNames = {
    "text",      "sentence", "transcript", "transcription", "normalized_text",
    "utterance", "label",    "raw_text",   "words"};
constexpr std::array<std::string_view, 6> kDurationNames = {
    "duration", "duration_s", "duration_sec", "duration_seconds", "seconds", "dur"};
constexpr std::array<std::string_view, 4> kOffsetNames = {"offset", "offset_s", "start", "start_s"};
constexpr std::array<std::string_view, 5> kSpeakerNames = {"speaker", "speaker_id", "spk",
                                                           "client_id", "speaker_name"};
constexpr std::array<std::string_view, 4> kLangNames = {"lang", "language", "locale", "lang_id"};

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char x) { return std::tolower(x); });
  return text;
}

class Columns {
 public:
  Columns(const TableReader& table, const fs::path& path) : table_(table), path_(path) {}

  // Returns the index of a column: the one that was specified, or the first of its usual names.
  std::optional<size_t> find(const std::string& named,
                             std::span<const std::string_view> usual) const {
    const std::vector<std::string>& columns = table_.columns();
    if (!named.empty()) {
      const auto at = std::ranges::find(columns, named);
      if (at == columns.end()) refuse_named(named);
      return at - columns.begin();
    }
    for (const std::string_view name : usual) {
      for (size_t i = 0; i < columns.size(); ++i) {
        if (lower(columns[i]) == name) return i;
      }
    }
    return std::nullopt;
  }

  size_t require(const std::string& named, std::span<const std::string_view> usual,
                 const char* option) const {
    const std::optional<size_t> index = find(named, usual);
    if (index) return *index;
    throw ConfigError({.attempted = fmt::format("importing {}", path_.string()),
                       .found = fmt::format("columns {}", fmt::join(table_.columns(), ", ")),
                       .expected = fmt::format("one of {}", fmt::join(usual, ", ")),
                       .hint = fmt::format("Name another with {}.", option)});
  }

 private:
  [[noreturn]] void refuse_named(const std::string& named) const {
    const std::optional<std::string> best = nearest(named, table_.columns());
    throw ConfigError({.attempted = fmt::format("importing {}", path_.string()),
                       .found = fmt::format("no column '{}'", named),
                       .expected = fmt::format("one of {}", fmt::join(table_.columns(), ", ")),
                       .hint = best ? fmt::format("Did you mean '{}'?", *best) : std::string()});
  }

  const TableReader& table_;
  const fs::path& path_;
};

// Parses the seconds of a cell: 0 for an empty cell; returns false if it is not a number of at
// least 0.
bool take_seconds(const std::string& cell, double& seconds) {
  seconds = 0.0;
  if (trimmed(cell).empty()) return true;
  const std::optional<double> number = parse_number(cell);
  if (!number || *number < 0.0) return false;
  seconds = *number;
  return true;
}

struct ColumnIndices {
  size_t audio, text;
  std::optional<size_t> duration, offset, speaker, lang;
};

// Returns what is wrong with a row; empty if it became an item.
std::string take_row(const TableRow& row, const ColumnIndices& indices, ImportItem& item) {
  const auto cell = [&](const std::optional<size_t>& index) {
    return index ? std::string(trimmed(row.cells[*index])) : std::string();
  };
  item.line = row.line;
  item.file = cell(indices.audio);
  item.text = cell(indices.text);
  item.speaker = cell(indices.speaker);
  item.lang = cell(indices.lang);
  if (item.file.empty()) return "no audio named";
  if (!take_seconds(cell(indices.duration), item.duration_s))
    return fmt::format("duration '{}', expected seconds", cell(indices.duration));
  double offset_s = 0.0;
  if (!take_seconds(cell(indices.offset), offset_s))
    return fmt::format("offset '{}', expected seconds", cell(indices.offset));
  if (!cell(indices.offset).empty()) item.offset_s = offset_s;
  return {};
}

}  // namespace

ImportList list_table(const ImportRequest& request) {
  const ImportOptions& options = request.options;
  TableReader table(request.source);
  const Columns columns(table, request.source);
  const ColumnIndices indices{
      .audio = columns.require(options.columns.audio, kAudioNames, "--audio-column"),
      .text = columns.require(options.columns.text, kTextNames, "--text-column"),
      .duration = columns.find(options.columns.duration, kDurationNames),
      .offset = columns.find(options.columns.offset, kOffsetNames),
      .speaker = columns.find(options.columns.speaker, kSpeakerNames),
      .lang = columns.find(options.columns.lang, kLangNames)};
  const fs::path root =
      options.audio_root.empty() ? request.source.parent_path() : options.audio_root;
  ImportList list{.name = request.source.filename().string(), .items = {}};
  while (const std::optional<TableRow> row = table.next()) {
    ImportItem item;
    const std::string fault = row->fault.empty() ? take_row(*row, indices, item) : row->fault;
    if (!fault.empty()) {
      list.refuse(row->line, fault);
      continue;
    }
    item.file = (root / item.file).string();  // an absolute path is unchanged
    list.items.push_back(std::move(item));
  }
  return list;
}

}  // namespace sotto::data
