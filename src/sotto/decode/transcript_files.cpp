#include "sotto/decode/transcript_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "sotto/decode/captions.h"

namespace sotto::decode {

namespace {

// Returns hh:mm:ss with milliseconds after the separator.
std::string subtitle_time(int64_t ms, char separator) {
  return fmt::format("{:02}:{:02}:{:02}{}{:03}", ms / 3'600'000, ms / 60'000 % 60, ms / 1000 % 60,
                     separator, ms % 1000);
}

void replace_all(std::string& text, std::string_view part, std::string_view by) {
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + by.size()))
    text.replace(at, part.size(), by);
}

}  // namespace

nlohmann::ordered_json to_json(const Transcript& transcript, const std::string& file) {
  using nlohmann::ordered_json;
  ordered_json json = {{"audio_filepath", file}, {"duration", transcript.seconds}};
  if (!transcript.language.empty()) json["language"] = transcript.language;
  json["text"] = transcript.text;
  ordered_json& segments = json["segments"] = ordered_json::array();
  for (const Transcript::Segment& segment : segments_of(transcript))
    segments.push_back(
        {{"start", segment.start_s}, {"end", segment.end_s}, {"text", segment.text}});
  ordered_json& words = json["words"] = ordered_json::array();
  for (const Transcript::Word& word : transcript.words)
    words.push_back({{"word", word.text}, {"start", word.start_s}, {"end", word.end_s}});
  return json;
}

std::string to_srt(const Transcript& transcript) {
  std::string srt;
  int64_t number = 0;
  for (const Caption& caption : make_captions(transcript)) {
    std::string text = fmt::format("{}", fmt::join(caption.lines, "\n"));
    replace_all(text, "-->", "→");
    srt += fmt::format("{}\n{} --> {}\n{}\n\n", ++number, subtitle_time(caption.start_ms, ','),
                       subtitle_time(caption.end_ms, ','), text);
  }
  return srt;
}

std::string to_vtt(const Transcript& transcript) {
  std::string vtt = "WEBVTT\n";
  for (const Caption& caption : make_captions(transcript)) {
    std::string text = fmt::format("{}", fmt::join(caption.lines, "\n"));
    replace_all(text, "&", "&amp;");
    replace_all(text, "<", "&lt;");
    replace_all(text, ">", "&gt;");
    vtt += fmt::format("\n{} --> {}\n{}\n", subtitle_time(caption.start_ms, '.'),
                       subtitle_time(caption.end_ms, '.'), text);
  }
  return vtt;
}

}  // namespace sotto::decode
