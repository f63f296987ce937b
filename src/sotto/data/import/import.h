// Creates manifests from common corpus formats: a folder of audio with transcripts, a table, Common
// Voice, LJSpeech, LibriSpeech, a Kaldi data folder, NeMo's tarred shards. A source lists its
// utterances; missing durations are read from the headers of the files, on all cores. They are
// stored in a file next to the manifest until that is finished, so that an interrupted import can
// be continued.
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
  // Base folder of relative paths in a table or a Kaldi folder; empty: the folder of the list
  // itself.
  std::filesystem::path audio_root = {};
  // NeMo's archives: "shards/audio_{0..7}.tar" or "shards/audio__OP_0..7_CL_.tar"; empty:
  // audio_N.tar next to the manifest.
  std::string tar = {};
  // Policy for a file that cannot be read, a broken row, or an utterance without audio or
  // transcript.
  Policy broken = Policy::kSkip;
};

// An item that was omitted, and the reason.
struct ImportProblem {
  // Examples: "validated.tsv line 12", "a/b.wav"
  std::string location;
  std::string found;
};

struct ImportResult {
  ImportSource source = ImportSource::kAuto;
  std::filesystem::path manifest = {};
  int64_t num_utterances = 0;
  double audio_seconds = 0.0;
  // Number of files whose headers were read now, and in an earlier, interrupted import.
  int64_t num_read = 0;
  int64_t num_resumed = 0;
  std::vector<ImportProblem> problems = {};
};

// Recognises the source type of a file or folder. Throws DataError where it is none.
ImportSource recognise_source(const std::filesystem::path& source);

// Writes the manifest, in the order of the source. Calls `progress` regularly with the number of
// utterances done and their total. Throws ConfigError where an option does not apply to the source,
// a column is missing or the build cannot read headers; DataError where the source cannot be read,
// nothing remains, or there is a problem under the policy `error`.
ImportResult import_corpus(const std::filesystem::path& source, const ImportOptions& options,
                           const std::function<void(int64_t, int64_t)>& progress = {});

}  // namespace sotto::data
