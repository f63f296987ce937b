#include "cli/views/corpus_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sotto/core/units.h"
#include "sotto/report/table.h"

namespace sotto::cli {

namespace {

using report::Align;
using report::Table;

std::string counted(const std::map<std::string, int64_t>& counts) {
  std::string text;
  for (const auto& [name, count] : counts)
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", name, count);
  return text;
}

std::string facts_table(const data::CorpusProfile& profile) {
  Table table({{}, {}});
  table.add_row({"utterances", fmt::format("{}", profile.num_utterances)});
  if (profile.num_bad_lines > 0)
    table.add_row({"broken lines", fmt::format("{}", profile.num_bad_lines)});
  table.add_row({"audio", fmt::format("{} ({:.2f} hours, {})", format_duration(profile.seconds),
                                      profile.seconds / 3600.0, profile.size_class())});
  const bool is_whole = profile.num_sampled == profile.num_utterances;
  table.add_row({"on disk", fmt::format("{}{}", is_whole ? "" : "about ",
                                        format_bytes(profile.estimated_bytes))});
  table.add_row({"form", counted(profile.forms)});
  if (profile.num_speakers > 0)
    table.add_row(
        {"speakers", fmt::format("{}{}", profile.num_speakers, is_whole ? "" : " in the sample")});
  if (!profile.languages.empty()) table.add_row({"languages", counted(profile.languages)});
  table.add_row({"characters", fmt::format("{} distinct", profile.num_characters)});
  if (profile.num_empty_texts > 0)
    table.add_row({"empty texts", fmt::format("{}", profile.num_empty_texts)});
  table.add_row({"inspected", is_whole ? "all files"
                                       : fmt::format("{} files (--sample all inspects every file)",
                                                     profile.num_sampled)});
  return table.to_string();
}

std::string lengths_table(const data::CorpusProfile& profile) {
  std::vector<report::Column> columns = {
      {"of an utterance"}, {"mean", Align::kRight}, {"min", Align::kRight}};
  for (const int percent : data::Distribution::kPercentiles)
    columns.push_back({fmt::format("{} %", percent), Align::kRight});
  columns.push_back({"max", Align::kRight});
  Table table(std::move(columns));
  const auto add = [&](const char* name, const data::Distribution& of, int decimals) {
    std::vector<std::string> cells = {name, fmt::format("{:.{}f}", of.mean, decimals),
                                      fmt::format("{:.{}f}", of.min, decimals)};
    for (const double value : of.percentiles)
      cells.push_back(fmt::format("{:.{}f}", value, decimals));
    cells.push_back(fmt::format("{:.{}f}", of.max, decimals));
    table.add_row(std::move(cells));
  };
  add("seconds", profile.durations_s, 2);
  add("characters", profile.characters, 0);
  return table.to_string();
}

// Renders one line per bin, with a bar.
std::string picture(const data::Histogram& histogram) {
  constexpr int64_t kWidth = 50;
  const int64_t most = std::ranges::max(histogram.counts);
  std::string text;
  for (size_t bin = 0; bin < histogram.counts.size(); ++bin) {
    const int64_t count = histogram.counts[bin];
    const double from = histogram.begin + histogram.width * static_cast<double>(bin);
    const int64_t eighths = (count * kWidth * 8 + most - 1) / most;
    std::string bar;
    for (int64_t i = 0; i < eighths / 8; ++i) bar += "█";
    constexpr std::array<const char*, 8> kPartial = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    bar += kPartial[static_cast<size_t>(eighths % 8)];
    text += fmt::format("{:6g} to {:6g} s {:8} {}", from, from + histogram.width, count, bar);
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  return text;
}

nlohmann::ordered_json to_json(const data::Distribution& of) {
  nlohmann::ordered_json json = {{"mean", of.mean}, {"min", of.min}, {"max", of.max}};
  for (size_t i = 0; i < of.percentiles.size(); ++i)
    json[fmt::format("p{}", data::Distribution::kPercentiles[i])] = of.percentiles[i];
  return json;
}

}  // namespace

std::string render(const data::CorpusProfile& profile) {
  std::string text =
      facts_table(profile) + "\n" + lengths_table(profile) + "\n" + picture(profile.histogram);
  if (profile.num_unreadable > 0)
    text += fmt::format("\n{} of {} files could not be read; the first: {}\n",
                        profile.num_unreadable, profile.num_sampled, profile.first_unreadable);
  return text;
}

nlohmann::ordered_json to_json(const data::CorpusProfile& profile) {
  return {{"format_version", 1},
          {"utterances", profile.num_utterances},
          {"broken_lines", profile.num_bad_lines},
          {"feature_dim", profile.feature_dim},
          {"audio_seconds", profile.seconds},
          {"size_class", profile.size_class()},
          {"seconds", to_json(profile.durations_s)},
          {"characters", to_json(profile.characters)},
          {"distinct_characters", profile.num_characters},
          {"empty_texts", profile.num_empty_texts},
          {"histogram",
           {{"begin", profile.histogram.begin},
            {"width", profile.histogram.width},
            {"counts", profile.histogram.counts}}},
          {"sampled", profile.num_sampled},
          {"unreadable", profile.num_unreadable},
          {"forms", profile.forms},
          {"speakers", profile.num_speakers},
          {"languages", profile.languages},
          {"estimated_bytes", profile.estimated_bytes}};
}

}  // namespace sotto::cli
