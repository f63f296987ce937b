#include "sotto/data/import/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <system_error>
#include <tuple>

#include "sotto/core/error.h"
#include "sotto/core/files/atomic_folder.h"
#include "sotto/core/files/text_file.h"
#include "sotto/data/import/import_durations.h"
#include "sotto/data/import/import_sources.h"
#include "sotto/data/manifest/manifest_paths.h"
#include "sotto/data/manifest/manifest_writer.h"

namespace sotto::data {

namespace {

namespace fs = std::filesystem;

ImportList list_items(ImportSource source, const ImportRequest& request) {
  switch (source) {
    case ImportSource::kFolder: return list_folder(request);
    case ImportSource::kTable: return list_table(request);
    case ImportSource::kCommonVoice: return list_common_voice(request);
    case ImportSource::kLjSpeech: return list_ljspeech(request);
    case ImportSource::kLibriSpeech: return list_librispeech(request);
    case ImportSource::kKaldi: return list_kaldi(request);
    case ImportSource::kNemoTarred: return list_nemo_tarred(request);
    case ImportSource::kAuto: break;
  }
  SOTTO_ASSERT(false, "a source that was not recognised");
  return {};
}

// An option that does not apply to the source is an error.
void check_options(const ImportOptions& options, ImportSource source) {
  const auto refuse = [&](const char* option, const char* where) {
    throw ConfigError(
        {.attempted = fmt::format("importing from {}", name_of(source, kImportSources)),
         .found = option,
         .expected = fmt::format("that only with {}", where)});
  };
  const TableColumns& columns = options.columns;
  const bool is_table = source == ImportSource::kTable;
  const bool names_columns = !columns.audio.empty() || !columns.text.empty() ||
                             !columns.duration.empty() || !columns.offset.empty() ||
                             !columns.speaker.empty() || !columns.lang.empty();
  if (names_columns && !is_table)
    refuse("the name of a column, as in --audio-column", "--from table");
  if (!options.audio_root.empty() && !is_table && source != ImportSource::kKaldi)
    refuse("--audio-root", "--from table or kaldi");
  if (!options.tar.empty() && source != ImportSource::kNemoTarred)
    refuse("--tar", "--from nemo-tarred");
}

// Checked before thousands of files are read in vain.
void check_is_no_folder(const fs::path& out) {
  std::error_code ignored;
  if (out.has_filename() && !fs::is_directory(out, ignored)) return;
  throw ConfigError({.attempted = fmt::format("writing {}", out.string()),
                     .found = "a folder",
                     .expected = "the name of a manifest",
                     .hint = fmt::format("--out {}", (out / "manifest.jsonl").string())});
}

std::string location_of(const ImportList& list, const ImportItem& item) {
  return item.line > 0 ? fmt::format("{} line {}", list.name, item.line) : item.file;
}

// Removes duplicate audio: ids that are not unique, or an incorrectly joined table.
void take_out_duplicates(ImportList& list) {
  const std::vector<ImportItem>& items = list.items;
  // Segments may start together and end apart. The duration of a whole file is not part of its
  // identity: lists round it.
  constexpr double kWhole = -1.0;
  const auto key = [&](size_t i) {
    return std::tuple<const std::string&, double, double>(
        items[i].file, items[i].offset_s.value_or(kWhole),
        items[i].offset_s ? items[i].duration_s : kWhole);
  };
  std::vector<size_t> order(items.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return key(a) < key(b); });
  std::vector<bool> is_second(items.size());
  for (size_t at = 1, first = 0; at < order.size(); ++at) {
    if (key(order[at]) != key(order[first])) {
      first = at;
      continue;
    }
    const ImportItem& item = items[order[at]];
    list.problems.push_back(
        {location_of(list, item), fmt::format("the same audio as {}: {}",
                                              location_of(list, items[order[first]]), item.file)});
    is_second[order[at]] = true;
  }
  size_t at = 0;
  std::erase_if(list.items, [&](const ImportItem&) { return is_second[at++]; });
}

// Throws the first problem if the policy requires it, and whenever nothing remains.
void check_problems(const ImportList& list, const ImportRequest& request, int64_t num_left) {
  const bool is_error = request.options.broken == Policy::kError && !list.problems.empty();
  if (num_left > 0 && !is_error) return;
  const std::string attempted = fmt::format("importing {}", request.source.string());
  if (list.problems.empty()) {
    throw DataError({.attempted = attempted, .found = "no utterance", .expected = "at least one"});
  }
  const ImportProblem& first = list.problems.front();
  const auto count = static_cast<int64_t>(list.problems.size());
  const std::string others = count == 1 ? "" : fmt::format("; {} more failed", count - 1);
  throw DataError(
      {.attempted = attempted,
       .found = fmt::format("{}: {}{}", first.location, first.found, others),
       .expected = is_error ? "none, with --broken error" : "at least one usable utterance",
       .hint = is_error ? "--broken skip skips and lists them." : ""});
}

Utterance utterance_of(const ImportItem& item, ManifestPaths& paths) {
  Utterance utterance;
  utterance.file = paths.name_of(item.file);
  utterance.offset_s = item.offset_s;
  utterance.duration_s = item.duration_s;
  utterance.text = item.text;
  utterance.speaker = item.speaker;
  utterance.lang = item.lang;
  return utterance;
}

}  // namespace

ImportResult import_corpus(const fs::path& source, const ImportOptions& options,
                           const std::function<void(int64_t, int64_t)>& progress) {
  const ImportSource from =
      options.from == ImportSource::kAuto ? recognise_source(source) : options.from;
  check_options(options, from);
  const fs::path out = fs::absolute(options.out);
  check_is_no_folder(out);
  check_is_another(out, source);
  check_replaces_manifest(out);
  const ImportRequest request{.source = source, .options = options};
  ImportList list = list_items(from, request);
  take_out_duplicates(list);
  check_problems(list, request, std::ssize(list.items));

  DurationStore store(out.parent_path() / fmt::format(".{}.durations", out.filename().string()));
  std::vector<std::string> faults;
  const DurationCounts counts = read_durations(list.items, store, faults, progress);
  int64_t num_left = std::ssize(list.items);
  for (size_t i = 0; i < faults.size(); ++i) {
    if (faults[i].empty() && !is_utf8(list.items[i].file)) faults[i] = "its name is not UTF-8";
    if (faults[i].empty()) continue;
    --num_left;
    list.problems.push_back({location_of(list, list.items[i]), faults[i]});
  }
  check_problems(list, request, num_left);

  ImportResult result{.source = from,
                      .manifest = options.out,
                      .num_utterances = num_left,
                      .num_read = counts.num_read,
                      .num_resumed = counts.num_resumed,
                      .problems = std::move(list.problems)};
  remove_leftovers(out.parent_path());  // left by an import that was killed while writing
  ManifestWriter writer(out);
  ManifestPaths paths(out.parent_path());
  for (size_t i = 0; i < faults.size(); ++i) {
    if (!faults[i].empty()) continue;
    writer.add(utterance_of(list.items[i], paths));
    result.audio_seconds += list.items[i].duration_s;
  }
  writer.finish();
  store.remove();
  return result;
}

}  // namespace sotto::data
