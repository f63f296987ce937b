// What a network learns: the words, units and defaults in which the program speaks of its data and
// of its results. A family of networks names its task; everything else reads it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace sotto {

struct Task {
  enum class Input { kSpeech, kText };
  // The kind of data it learns from, and its name.
  Input input;
  std::string_view input_name;
  // One item of that data, and several.
  std::string_view item;
  std::string_view items;
  // The speed of training, in the unit that lengths of items have per second.
  std::string_view speed_unit;
  // What the best checkpoint is chosen by.
  std::string_view metric;
  // Assumed where no data is given: its name, and the entries of its vocabulary.
  std::string_view usual_data;
  int64_t usual_vocabulary;
  // The names of the task and of its metrics in model cards; the second metric may be empty.
  std::string_view card_task;
  std::array<std::string_view, 2> card_metrics;

  bool is_speech() const { return input == Input::kSpeech; }
  bool is_text() const { return input == Input::kText; }
  // Whether the metric says so. Error rates and perplexities: the lower, the better.
  static bool is_better(double value, double than) { return value < than; }
};

inline constexpr Task kTranscription = {.input = Task::Input::kSpeech,
                                        .input_name = "speech",
                                        .item = "utterance",
                                        .items = "utterances",
                                        .speed_unit = "audio-s/s",
                                        .metric = "WER",
                                        .usual_data = "LibriSpeech train-clean-100",
                                        .usual_vocabulary = 32,
                                        .card_task = "automatic-speech-recognition",
                                        .card_metrics = {"wer", "cer"}};

inline constexpr Task kLanguageModelling = {.input = Task::Input::kText,
                                            .input_name = "text",
                                            .item = "row of text",
                                            .items = "rows",
                                            .speed_unit = "tokens/s",
                                            .metric = "perplexity",
                                            .usual_data = "a thousand rows",
                                            .usual_vocabulary = 10'000,
                                            .card_task = "text-generation",
                                            .card_metrics = {"perplexity", ""}};

}  // namespace sotto
