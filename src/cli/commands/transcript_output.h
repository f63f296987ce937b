// Where `sotto transcribe` writes its transcripts, and in which format.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sotto/decode/transcript.h"
#include "sotto/decode/transcript_files.h"

namespace sotto::cli {

struct TranscriptOutputOptions {
  std::optional<std::string> format;
  std::optional<std::string> out;
  bool srt = false;
  bool json = false;

  // Adds --format, --out, --srt and --json.
  void add_to(CLI::App& command);
};

class TranscriptOutput {
 public:
  // Throws ConfigError for options that exclude each other, and where two transcripts would have
  // one name or one would replace a recording. Nothing is written yet.
  TranscriptOutput(const TranscriptOutputOptions& options, const std::vector<std::string>& files);

  // Writes the transcript of the n-th file: to its own file, or to standard output, where JSON
  // waits for finish(). Throws DataError where a file cannot be written.
  void write(size_t index, const decode::Transcript& transcript);
  void finish();

 private:
  std::string text_of(size_t index, const decode::Transcript& transcript) const;

  std::vector<std::string> files_;
  decode::TranscriptFormat format_;
  // Where the transcript of each file is written; empty: standard output.
  std::vector<std::filesystem::path> paths_;
  nlohmann::ordered_json json_ = nlohmann::ordered_json::array();
};

}  // namespace sotto::cli
