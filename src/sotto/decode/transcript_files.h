// Transcripts as files: plain text, JSON, and SubRip and WebVTT subtitles.
#pragma once

#include <array>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "sotto/core/config/options.h"
#include "sotto/decode/transcript.h"

namespace sotto::decode {

enum class TranscriptFormat { kText, kJson, kSrt, kVtt };

inline constexpr std::array kTranscriptFormats = {
    Named{"text", TranscriptFormat::kText}, Named{"json", TranscriptFormat::kJson},
    Named{"srt", TranscriptFormat::kSrt}, Named{"vtt", TranscriptFormat::kVtt}};

// Returns text, segments and words with their times in seconds, of the named file.
nlohmann::ordered_json to_json(const Transcript& transcript, const std::string& file);

// Return the captions of a transcript as a file; see captions.h. No text of a transcript can be
// taken for something else in it: SubRip has no escapes, so that an arrow of "-->" becomes "→".
std::string to_srt(const Transcript& transcript);
std::string to_vtt(const Transcript& transcript);

}  // namespace sotto::decode
