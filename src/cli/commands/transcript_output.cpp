#include "cli/commands/transcript_output.h"

#include <fmt/format.h>

#include <iostream>
#include <map>
#include <system_error>

#include "cli/views/json_text.h"
#include "sotto/core/error.h"
#include "sotto/core/files/atomic_folder.h"

namespace sotto::cli {

namespace {

namespace fs = std::filesystem;

using decode::kTranscriptFormats;
using decode::TranscriptFormat;

// Endings of files, in the order of the formats.
constexpr std::array kEndings = {
    Named{".txt", TranscriptFormat::kText}, Named{".json", TranscriptFormat::kJson},
    Named{".srt", TranscriptFormat::kSrt}, Named{".vtt", TranscriptFormat::kVtt}};

[[noreturn]] void refuse(const std::string& found, const char* expected, const char* hint) {
  throw ConfigError(
      {.attempted = "transcribing audio", .found = found, .expected = expected, .hint = hint});
}

// Returns whether --out names a folder.
bool names_folder(const std::string& out, size_t num_files) {
  return num_files > 1 || out.ends_with('/') || fs::is_directory(out);
}

TranscriptFormat format_named(const std::string& name) {
  for (const Named<TranscriptFormat>& entry : kTranscriptFormats)
    if (entry.name == name) return entry.value;
  refuse(fmt::format("--format {}", name), "text, json, srt or vtt", "Example: --format srt.");
}

TranscriptFormat format_of(const TranscriptOutputOptions& options, size_t num_files) {
  if (options.srt && options.json) refuse("--srt and --json", "one of them", "Remove one.");
  if (options.format && (options.srt || options.json))
    refuse(fmt::format("--format {} and {}", *options.format, options.srt ? "--srt" : "--json"),
           "one of them", "Remove one.");
  if (options.srt) return TranscriptFormat::kSrt;
  if (options.json) return TranscriptFormat::kJson;
  if (options.format) return format_named(*options.format);
  if (!options.out || names_folder(*options.out, num_files)) return TranscriptFormat::kText;
  const std::string ending = fs::path(*options.out).extension().string();
  for (const Named<TranscriptFormat>& entry : kEndings)
    if (entry.name == ending) return entry.value;
  return TranscriptFormat::kText;
}

// Returns the file of each transcript in a folder.
std::vector<fs::path> paths_in(const fs::path& folder, TranscriptFormat format,
                               const std::vector<std::string>& files) {
  std::map<fs::path, std::string> file_by_path;
  std::vector<fs::path> paths;
  for (const std::string& file : files) {
    const fs::path path =
        folder / (fs::path(file).stem().string() + std::string(name_of(format, kEndings)));
    const auto [known, is_new] = file_by_path.emplace(path, file);
    if (!is_new)
      refuse(fmt::format("{} and {}, whose transcripts would both be {}", known->second, file,
                         path.string()),
             "files with different names", "Call sotto transcribe once per folder of recordings.");
    paths.push_back(path);
  }
  return paths;
}

std::vector<fs::path> paths_of(const TranscriptOutputOptions& options, TranscriptFormat format,
                               const std::vector<std::string>& files) {
  if (!options.out) return {};
  const std::string& out = *options.out;
  if (out.empty()) refuse("--out without a name", "a file or a folder", "Example: --out talk.srt.");
  if (!names_folder(out, files.size())) return {fs::path(out)};
  if (fs::exists(out) && !fs::is_directory(out))
    refuse(fmt::format("--out {}, a file, and {} recordings", out, files.size()),
           "a folder for the transcripts of several files", "Name a folder.");
  return paths_in(out, format, files);
}

}  // namespace

void TranscriptOutputOptions::add_to(CLI::App& command) {
  command.add_option("--format", format,
                     "text, json, srt or vtt; by default what the ending of --out says, or text");
  command.add_option("--out", out,
                     "File to write, or folder with a file for each recording (standard output)");
  command.add_flag("--srt", srt, "Same as --format srt");
  command.add_flag("--json", json, "Same as --format json");
}

TranscriptOutput::TranscriptOutput(const TranscriptOutputOptions& options,
                                   const std::vector<std::string>& files)
    : files_(files),
      format_(format_of(options, files.size())),
      paths_(paths_of(options, format_, files)) {
  const bool has_captions = format_ == TranscriptFormat::kSrt || format_ == TranscriptFormat::kVtt;
  if (has_captions && !options.out && files.size() > 1)
    refuse(
        fmt::format("--format {} and {} files", name_of(format_, kTranscriptFormats), files.size()),
        "one file, or a folder for the subtitles of each", "Add --out FOLDER.");
  for (const fs::path& path : paths_)
    for (const std::string& file : files) check_is_another(path, file);
}

std::string TranscriptOutput::text_of(size_t index, const decode::Transcript& transcript) const {
  switch (format_) {
    case TranscriptFormat::kSrt: return decode::to_srt(transcript);
    case TranscriptFormat::kVtt: return decode::to_vtt(transcript);
    case TranscriptFormat::kJson:
      return json_text(nlohmann::ordered_json::array({decode::to_json(transcript, files_[index])}));
    case TranscriptFormat::kText: break;
  }
  const bool is_named = paths_.empty() && files_.size() > 1;
  return (is_named ? files_[index] + ": " : "") + transcript.text + "\n";
}

void TranscriptOutput::write(size_t index, const decode::Transcript& transcript) {
  if (!paths_.empty()) {
    const fs::path& path = paths_[index];
    std::error_code ignored;  // a folder that is missing is an error of the file
    if (path.has_parent_path()) fs::create_directories(path.parent_path(), ignored);
    write_text_synced(path, text_of(index, transcript));
    std::cout << fmt::format("{}: transcript in {}\n", files_[index], path.string()) << std::flush;
  } else if (format_ == TranscriptFormat::kJson) {
    json_.push_back(decode::to_json(transcript, files_[index]));
  } else {
    std::cout << text_of(index, transcript) << std::flush;
  }
}

void TranscriptOutput::finish() {
  if (paths_.empty() && format_ == TranscriptFormat::kJson) std::cout << json_text(json_);
}

}  // namespace sotto::cli
