// A Kaldi data folder: wav.scp and text, and optionally segments, utt2spk and utt2dur.
// A line of wav.scp may be a command that writes audio. Commands are never run: one that only
// unpacks or converts a file that can be read directly is replaced by that file, all others are
// refused with the command to type.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <system_error>
#include <unordered_map>

#include "sotto/core/error.h"
#include "sotto/core/files/text_file.h"
#include "sotto/data/audio/audio.h"
#include "sotto/data/audio/audio_path.h"
#include "sotto/data/audio/tar_shards.h"
#include "sotto/data/import/import_sources.h"
#include "sotto/data/text/text_lines.h"

namespace sotto::data {

namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

Words split_words(std::string_view text) {
  Words words;
  for (FirstWord parts = split_first_word(text); !parts.word.empty();
       parts = split_first_word(parts.rest))
    words.emplace_back(parts.word);
  return words;
}

// Returns the file that a command reads, if it only unpacks it (flac, cat) or changes rate, width
// or channels (sox without effects), which sotto does itself; empty for every other command.
std::string file_of_command(const Words& command) {
  const std::string program = fs::path(command.front()).filename().string();
  const bool is_sox = program == "sox";
  if (!is_sox && program != "flac" && program != "cat") return {};
  std::string file;
  bool has_output = false;
  for (size_t i = 1; i < command.size(); ++i) {
    const std::string& word = command[i];
    if (is_sox && word == "-") {
      has_output = true;
    } else if (is_sox &&
               (word == "-t" || word == "-r" || word == "-b" || word == "-e" || word == "-c")) {
      ++i;  // and its value
    } else if (program == "flac" &&
               (word == "-c" || word == "-d" || word == "-s" || word == "-cd" || word == "-dc" ||
                word == "--silent" || word == "--decode" || word == "--stdout")) {
      continue;
    } else if (word.starts_with('-') || !file.empty() || has_output) {
      return {};  // an effect that changes the audio
    } else {
      file = word;
    }
  }
  return is_sox && !has_output ? std::string() : file;
}

class KaldiFolder {
 public:
  explicit KaldiFolder(const ImportRequest& request)
      : folder_(request.source), root_(request.options.audio_root) {
    list_.name = "text";
  }

  ImportList read() {
    std::error_code ignored;
    read_recordings();
    read_pairs("utt2spk", [&](std::string_view id, std::string_view rest) {
      return speakers_.emplace(id, rest).second;
    });
    read_pairs("utt2dur", [&](std::string_view id, std::string_view rest) {
      return durations_.emplace(id, parse_number(rest).value_or(0.0)).second;
    });
    read_pairs("segments", [&](std::string_view id, std::string_view rest) {
      has_segments_ = true;
      return segments_.emplace(id, rest).second;
    });
    if (!fs::exists(folder_ / "text", ignored))
      refuse_file(folder_, "it has no file text", "a Kaldi data folder: wav.scp and text", {});
    read_pairs("text", [&](std::string_view id, std::string_view rest) {
      if (!seen_.emplace(id, line_).second) return false;
      take_utterance(std::string(id), rest);
      return true;
    });
    return std::move(list_);
  }

 private:
  // Calls `take` with the id and the rest of each line; it returns false for a duplicate id. A
  // missing file counts as empty.
  template <class Take>
  void read_pairs(const char* name, const Take& take) {
    std::error_code ignored;
    if (!fs::exists(folder_ / name, ignored)) return;
    TextLines lines(folder_ / name, fmt::format("Kaldi's {}", name));
    while (const std::optional<std::string_view> line = lines.next()) {
      const FirstWord parts = split_first_word(*line);
      if (parts.word.empty()) continue;
      line_ = lines.number();
      const std::string location = fmt::format("{} line {}", name, line_);
      if (!is_utf8(*line)) {
        list_.problems.push_back({location, "not UTF-8"});
      } else if (!take(parts.word, parts.rest)) {
        list_.problems.push_back({location, fmt::format("duplicate id '{}'", parts.word)});
      }
    }
  }

  void read_recordings() {
    std::error_code ignored;
    if (!fs::exists(folder_ / "wav.scp", ignored))
      refuse_file(folder_, "it has no file wav.scp", "a Kaldi data folder: wav.scp and text", {});
    read_pairs("wav.scp", [&](std::string_view id, std::string_view rest) {
      if (recordings_.contains(std::string(id))) return false;
      std::string file(rest);
      if (rest.ends_with('|')) {
        const std::string_view command = trimmed(rest.substr(0, rest.size() - 1));
        const Words words = split_words(command);
        file = words.empty() ? std::string() : file_of_command(words);
        if (file.empty()) {
          refused_.emplace(id, fmt::format("audio from a command, which is not run; type '{} > "
                                           "{}.wav' and name that file in wav.scp",
                                           command, id));
        }
      }
      recordings_.emplace(id, location_of(file));
      return true;
    });
  }

  // Recipes are run two folders above the data, and their paths are relative to that.
  std::string location_of(const std::string& file) const {
    std::error_code ignored;
    if (!root_.empty()) return (root_ / file).string();
    if (fs::exists(folder_ / file, ignored)) return (folder_ / file).string();
    return file;
  }

  void take_utterance(const std::string& id, std::string_view text) {
    ImportItem item{.file = {}, .text = std::string(text), .line = line_};
    const std::string fault = has_segments_ ? take_segment(id, item) : take_recording(id, item);
    if (!fault.empty()) {
      list_.refuse(line_, fault);
      return;
    }
    if (const auto at = speakers_.find(id); at != speakers_.end()) item.speaker = at->second;
    if (const auto at = durations_.find(id); at != durations_.end() && item.duration_s == 0.0)
      item.duration_s = std::max(0.0, at->second);
    list_.items.push_back(std::move(item));
  }

  std::string take_recording(const std::string& id, ImportItem& item) const {
    const auto at = recordings_.find(id);
    if (at == recordings_.end()) return fmt::format("'{}' is not in wav.scp", id);
    if (const auto why = refused_.find(id); why != refused_.end()) return why->second;
    item.file = at->second;
    return {};
  }

  // Parses "recording start end" or "recording start end channel", where an end of -1 is that of
  // the file.
  std::string take_segment(const std::string& id, ImportItem& item) {
    const auto at = segments_.find(id);
    if (at == segments_.end()) return fmt::format("'{}' is not in segments", id);
    const Words words = split_words(at->second);
    const std::optional<double> start = words.size() < 3 ? std::nullopt : parse_number(words[1]);
    const std::optional<double> end = words.size() < 3 ? std::nullopt : parse_number(words[2]);
    const bool is_open = end && *end == -1.0;
    const std::optional<double> channel = words.size() < 4 ? 0.0 : parse_number(words[3]);
    constexpr double kMostChannels = 1024.0;  // libsndfile's limit
    const bool has_channel =
        channel && *channel >= 0.0 && *channel < kMostChannels && *channel == std::floor(*channel);
    constexpr double kMostSeconds = 1e9;  // limit of a manifest line
    const bool has_end = end && (is_open || (start && *end > *start && *end < kMostSeconds));
    if (!start || *start < 0.0 || !has_end || !has_channel || words.size() > 4)
      return fmt::format(
          "segment '{}', expected a recording, a start and an end in seconds, and optionally "
          "a channel",
          at->second);
    item.offset_s = start;
    item.duration_s = is_open ? 0.0 : *end - *start;
    std::string fault = take_recording(words[0], item);
    if (!fault.empty() || words.size() < 4) return fault;
    return check_channel(words[0], item.file, static_cast<int64_t>(*channel));
  }

  // A manifest has no channels. The channel of a mono recording need not be named; one of several
  // would be averaged with the others.
  std::string check_channel(const std::string& recording, const std::string& file,
                            int64_t channel) {
    auto known = num_channels_.find(recording);
    if (known == num_channels_.end()) {
      try {
        known = num_channels_.emplace(recording, audio_info(file, shards_).channels).first;
      } catch (const DataError& error) {
        return error.what();
      }
    }
    const int64_t count = known->second;
    if (channel >= count)
      return fmt::format("channel {} of {}, which has {} (channels count from 0)", channel, file,
                         count);
    if (count == 1) return {};
    return fmt::format(
        "channel {} of {}, which has {} channels that would be averaged; type 'sox {} {}-{}.wav "
        "remix {}' "
        "and name that file in wav.scp",
        channel, file, count, file, recording, channel, channel + 1);
  }

  fs::path folder_;
  fs::path root_;
  ImportList list_;
  int64_t line_ = 0;
  bool has_segments_ = false;
  std::unordered_map<std::string, std::string> recordings_;
  // Recordings whose command was refused, with the reason.
  std::unordered_map<std::string, std::string> refused_;
  std::unordered_map<std::string, std::string> segments_;
  std::unordered_map<std::string, std::string> speakers_;
  std::unordered_map<std::string, double> durations_;
  std::unordered_map<std::string, int64_t> seen_;
  // By recording, for those whose segments name a channel.
  std::unordered_map<std::string, int64_t> num_channels_;
  TarShards shards_;
};

}  // namespace

ImportList list_kaldi(const ImportRequest& request) {
  return KaldiFolder(request).read();
}

}  // namespace sotto::data
