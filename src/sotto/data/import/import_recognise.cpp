// Recognises the source type of a file or folder by its content.
#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "sotto/core/error.h"
#include "sotto/data/audio/audio_path.h"
#include "sotto/data/import/import_sources.h"
#include "sotto/data/text/text_lines.h"

namespace sotto::data {

namespace {

namespace fs = std::filesystem;

constexpr const char* kSources =
    "a folder of audio with transcripts, a .csv or .tsv, Common Voice, LJSpeech, LibriSpeech, a "
    "Kaldi "
    "data folder, or a NeMo manifest of tarred shards";

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::string first_line(const fs::path& file) {
  return std::string(TextLines(file, kSources).next().value_or(""));
}

bool has_column(const std::string& header, std::string_view name) {
  return fmt::format("\t{}\t", header).find(fmt::format("\t{}\t", name)) != std::string::npos;
}

// In LJSpeech the first row is an utterance, not a header.
bool is_ljspeech(const fs::path& table) {
  return table.extension() == ".csv" && is_there(table) && is_there(table.parent_path() / "wavs") &&
         first_line(table).find('|') != std::string::npos;
}

bool is_common_voice(const fs::path& table) {
  if (table.extension() != ".tsv" || !is_there(table.parent_path() / "clips")) return false;
  const std::string header = first_line(table);
  return has_column(header, "client_id") && has_column(header, "path") &&
         has_column(header, "sentence");
}

ImportSource recognise_file(const fs::path& file) {
  if (is_ljspeech(file)) return ImportSource::kLjSpeech;
  if (is_common_voice(file)) return ImportSource::kCommonVoice;
  const std::string extension = file.extension().string();
  if (extension == ".csv" || extension == ".tsv") return ImportSource::kTable;
  if (extension == ".json" || extension == ".jsonl") {
    if (first_line(file).find("\"shard_id\"") != std::string::npos)
      return ImportSource::kNemoTarred;
    refuse_file(file, "it is already a manifest", kSources,
                "Use it as it is; if its audio is in archives, name them with --from "
                "nemo-tarred --tar.");
  }
  refuse_file(file, fmt::format("a file that ends in '{}'", extension), kSources,
              "Name the format with --from.");
}

}  // namespace

ImportSource recognise_source(const fs::path& source) {
  std::error_code ignored;
  if (!is_there(source)) refuse_file(source, "No such file or directory", kSources, {});
  if (!fs::is_directory(source, ignored)) return recognise_file(source);
  if (is_there(source / "wav.scp")) return ImportSource::kKaldi;
  if (is_ljspeech(source / "metadata.csv")) return ImportSource::kLjSpeech;
  if (is_there(source / "clips") && is_common_voice(common_voice_table(source)))
    return ImportSource::kCommonVoice;
  const std::vector<fs::path> files = files_below(source);
  const auto is_transcripts = [](const fs::path& file) {
    return file.string().ends_with(".trans.txt");
  };
  if (std::ranges::any_of(files, is_transcripts)) return ImportSource::kLibriSpeech;
  const auto is_audio = [](const fs::path& file) {
    return has_audio_name(file) || needs_ffmpeg(file);
  };
  if (std::ranges::any_of(files, is_audio)) return ImportSource::kFolder;
  refuse_file(source, "it contains neither audio nor a list of audio files", kSources,
              "Name the list itself, or its format with --from.");
}

}  // namespace sotto::data
