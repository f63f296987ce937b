// Manifests from corpora as they come: a folder of audio with transcripts, a table, Common Voice,
// LJSpeech, LibriSpeech, a Kaldi data folder, NeMo's tarred shards. A source lists its utterances;
// durations that it does not say are read from the headers of the files, on all cores. What was
// read stands in a file beside the manifest until that is finished, so that an import that was
// killed goes on where it was.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "sotto/core/config/options.h"
#include "sotto/data/batch/dataset.h"

namespace sotto::data {

enum class ImportSource {
  kAuto,
  kFolder,
  kTable,
  kCommonVoice,
  kLjSpeech,
  kLibriSpeech,
  kKaldi,
  kNemoTarred
};

inline constexpr std::array kImportSources = {
    Named<ImportSource>{"auto", ImportSource::kAuto},
    Named<ImportSource>{"folder", ImportSource::kFolder},
    Named<ImportSource>{"table", ImportSource::kTable},
    Named<ImportSource>{"common-voice", ImportSource::kCommonVoice},
    Named<ImportSource>{"ljspeech", ImportSource::kLjSpeech},
    Named<ImportSource>{"librispeech", ImportSource::kLibriSpeech},
    Named<ImportSource>{"kaldi", ImportSource::kKaldi},
    Named<ImportSource>{"nemo-tarred", ImportSource::kNemoTarred}};

// Names of a table's columns; empty: found by their usual names.
struct TableColumns {
  std::string audio = {};
  std::string text = {};
  std::string duration = {};
  std::string offset = {};
  std::string speaker = {};
  std::string lang = {};
};

struct ImportOptions {
  ImportSource from = ImportSource::kAuto;
  // The manifest to write.
  std::filesystem::path out = {};
  TableColumns columns = {};
  // Where relative paths in a table or a Kaldi folder begin; empty: at the list itself.
  std::filesystem::path audio_root = {};
  // NeMo's archives: "shards/audio_{0..7}.tar" or "shards/audio__OP_0..7_CL_.tar"; empty:
  // audio_N.tar beside the manifest.
  std::string tar = {};
  // A file that cannot be read, a row that is broken, an utterance without its other half.
  Policy broken = Policy::kSkip;
};

// What was left out, and why.
struct ImportProblem {
  // "validated.tsv line 12", "a/b.wav"
  std::string place;
  std::string found;
};

struct ImportResult {
  ImportSource source = ImportSource::kAuto;
  std::filesystem::path manifest = {};
  int64_t num_utterances = 0;
  double audio_seconds = 0.0;
  // Files whose headers were read now, and in an import before that did not end.
  int64_t num_read = 0;
  int64_t num_resumed = 0;
  std::vector<ImportProblem> problems = {};
};

// The source that a file or folder is. Throws DataError where it is none.
ImportSource recognise_source(const std::filesystem::path& source);

// Writes the manifest, in the order of the source. Calls `progress` now and then with the number of
// utterances done and of all. Throws ConfigError where an option means nothing to the source, a
// column is missing or the build cannot read headers; DataError where the source cannot be read,
// nothing is left, or a problem meets `error`.
ImportResult import_corpus(const std::filesystem::path& source, const ImportOptions& options,
                           const std::function<void(int64_t, int64_t)>& progress = {});

}  // namespace sotto::data
