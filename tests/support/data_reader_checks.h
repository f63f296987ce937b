// As reader_checks.h, for the readers of src/sotto/data.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <string_view>
#include <variant>

#include "sotto/data/audio/wav_reader.h"
#include "sotto/data/manifest/manifest.h"
#include "sotto/data/manifest/manifest_line.h"
#include "sotto/data/manifest/manifest_paths.h"
#include "sotto/data/text/byte_bpe_files.h"
#include "sotto/data/text/sentence_piece_file.h"
#include "sotto/data/text/table_reader.h"
#include "sotto/data/text/text_lines.h"
#include "sotto/decode/ngram_model.h"
#include "support/reader_checks.h"

namespace sotto::test {

// One behind the other inside of the utterance, but for a rounding of 10 ms.
inline void check_segments(const data::Utterance& utterance) {
  constexpr double kToleranceS = 0.010001;
  double end_s = 0;
  for (const data::Segment& segment : utterance.segments) {
    expect_promise(segment.duration_s > 0 && segment.offset_s >= end_s - kToleranceS,
                   "segments come in their order");
    end_s = segment.end_s();
    expect_promise(end_s <= utterance.duration_s + kToleranceS, "segments end in the utterance");
    expect_promise(is_utf8(segment.text), "texts are UTF-8");
  }
}

inline void check_stored_pieces(std::string_view model, const std::string& source) {
  const size_t count = data::stored_pieces(model, source).size();
  expect_promise(data::stored_pieces(data::without_padding(model), source).size() == count,
                 "a model without padding has the same pieces");
  if (count == 0) return;
  const auto last = static_cast<int64_t>(count) - 1;
  expect_promise(
      data::stored_pieces(data::without_piece(model, last, source), source).size() == count - 1,
      "a model without a piece has one less");
}

inline void check_utterance(const data::Utterance& utterance) {
  expect_promise(!utterance.file.empty(), "an utterance has a file");
  expect_promise(std::isfinite(utterance.duration_s) && utterance.duration_s > 0,
                 "a duration is above 0");
  expect_promise(utterance.offset_s.value_or(0) >= 0, "an offset is not negative");
  expect_promise(utterance.feature_dim == 0 || utterance.num_frames > 0, "features have frames");
  expect_promise(utterance.frame_offset >= 0 && utterance.feature_dim >= 0,
                 "counts are not negative");
  for (const std::string& text :
       {utterance.file, utterance.text, utterance.speaker, utterance.lang})
    expect_promise(is_utf8(text), "texts are UTF-8");
  check_segments(utterance);
}

// A line is an utterance or has a fault; of an utterance the file can be changed, and no more.
inline void check_manifest_line(std::string_view line) {
  const auto parsed = data::parse_manifest_line(line);
  if (const auto* fault = std::get_if<data::LineFault>(&parsed))
    return expect_promise(!fault->found.empty(), "a fault says what it is");
  const auto& utterance = std::get<data::Utterance>(parsed);
  check_utterance(utterance);
  const char* key = utterance.feature_dim > 0 ? "feature_filepath" : "audio_filepath";
  const auto moved = data::parse_manifest_line(data::with_file(line, key, "moved"));
  const auto* found = std::get_if<data::Utterance>(&moved);
  expect_promise(found != nullptr && found->file == "moved",
                 "a line has the file that it is given");
  expect_promise(found->text == utterance.text && found->duration_s == utterance.duration_s,
                 "a line keeps all but its file");
}

// The columns of the index say what the lines say; bad lines are refused in the end.
inline void check_manifest(const data::Manifest& manifest) {
  const data::ManifestIndex& index = manifest.index();
  for (int64_t u = 0; u < manifest.size(); ++u) {
    const auto position = static_cast<size_t>(u);
    const data::Utterance utterance = manifest.at(u);
    check_utterance(utterance);
    expect_promise(index.columns().num_frames[position] == utterance.num_frames,
                   "an index has the frames of a line");
    const double duration_s = manifest.duration_s(u);
    expect_promise(std::abs(duration_s - utterance.duration_s) <= 1e-6 * utterance.duration_s,
                   "an index has the duration of a line to 7 digits");
    for_each_code_point(utterance.text, [&](char32_t code) {
      expect_promise(std::ranges::binary_search(index.characters(), code),
                     "an index has the characters of a line");
    });
  }
  manifest.refuse_bad_lines();
}

// Returns how many rows have a fault.
inline int64_t check_table(const std::filesystem::path& path) {
  data::TableReader table(path);
  int64_t last_line = 0;
  int64_t num_faults = 0;
  while (const std::optional<data::TableRow> row = table.next()) {
    expect_promise(row->line > last_line, "rows come in their order");
    last_line = row->line;
    num_faults += row->fault.empty() ? 0 : 1;
    if (!row->fault.empty()) continue;
    expect_promise(row->cells.size() == table.columns().size(), "a row has a cell a column");
    for (const std::string& cell : row->cells) expect_promise(is_utf8(cell), "cells are UTF-8");
  }
  return num_faults;
}

// Scores are numbers whatever the words, as long as a model is read.
inline void check_ngram_model(const std::filesystem::path& path) {
  const decode::NgramModel model = decode::NgramModel::read(path);
  decode::NgramModel::State state = model.begin();
  for (const char* word : {"cat", "sits", "dog", "cat", "cat", "</s>", "sits"}) {
    expect_promise(std::isfinite(model.score(state, word)), "the score of a word is finite");
    expect_promise(std::isfinite(model.finish(state)), "the score of a sentence is finite");
    expect_promise(state.size < model.order(), "a state has the words that the model looks at");
  }
}

inline void check_lines(const std::filesystem::path& path) {
  data::TextLines lines(path, "a text");
  int64_t count = 0;
  while (const std::optional<std::string_view> line = lines.next()) {
    ++count;
    expect_promise(lines.number() == count, "lines are counted");
    expect_promise(line->find('\n') == std::string_view::npos, "a line is one");
    const auto [word, rest] = data::split_first_word(*line);
    expect_promise(word.size() + rest.size() <= line->size(), "words are of the line");
    if (const std::optional<double> number = data::parse_number(word))
      expect_promise(std::isfinite(*number), "a number is finite");
    check_utf8(*line);
  }
}

// Reads out of memory, which must outlive what comes back.
inline data::ReadBytes read_from(std::string_view bytes) {
  return [bytes](int64_t at, std::span<char> to) {
    expect_promise(at >= 0, "a place is in the file or behind it");
    const std::string_view rest =
        bytes.substr(std::min(static_cast<size_t>(at), bytes.size())).substr(0, to.size());
    if (!rest.empty()) std::memcpy(to.data(), rest.data(), rest.size());
    return std::ssize(rest);
  };
}

// All samples of a header lie in the file. Throws DataError where there is a fault.
inline void check_wav(std::string_view bytes) {
  const auto read = data::read_wav_header(read_from(bytes), std::ssize(bytes));
  if (const auto* fault = std::get_if<data::WavFault>(&read)) {
    expect_promise(!fault->found.empty(), "a fault says what it is");
    throw DataError({.attempted = "reading WAV", .found = fault->found});
  }
  const auto& header = std::get<data::WavHeader>(read);
  expect_promise(header.info.channels > 0 && header.info.frames >= 0, "counts are not negative");
  expect_promise(header.promised_frames >= header.info.frames, "frames are at most those promised");
  for (const int64_t first : {int64_t{0}, header.info.frames / 2}) {
    const auto samples = data::read_wav_samples(read_from(bytes), header, first, int64_t{1} << 40);
    expect_promise(std::ssize(samples) == header.info.frames - first, "all frames are there");
    for (const float sample : samples) expect_promise(std::abs(sample) <= 1.0f, "|sample| <= 1");
  }
}

// Numbers of merges and of tokens with a role are those of entries.
inline void check_byte_bpe(const std::filesystem::path& path) {
  if (!data::is_byte_bpe(path)) return;
  const data::ByteBpeFiles files = data::read_byte_bpe(path);
  const auto is_entry = [&](int32_t number) {
    return number >= 0 && number < std::ssize(files.entries) &&
           !files.entries[static_cast<size_t>(number)].empty();
  };
  expect_promise(files.is_special.size() == files.entries.size(), "each entry has a kind");
  for (const data::BpeMerge& merge : files.merges)
    expect_promise(is_entry(merge.first) && is_entry(merge.second) && is_entry(merge.result),
                   "merges are of entries");
  for (const auto& number : {files.padding, files.end})
    expect_promise(!number || (is_entry(*number) && files.is_special[static_cast<size_t>(*number)]),
                   "padding and end are special entries");
  for (const std::string& entry : files.entries) {
    expect_promise(is_utf8(entry), "entries are UTF-8");
    const std::string bytes = data::bytes_of_entry(entry);
    touch(std::as_bytes(std::span(bytes)));
  }
}

}  // namespace sotto::test
