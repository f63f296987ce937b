// Describes what a network learns: the terms, units and defaults in which the program reports its
// data and its results. A model family names its task; everything else reads it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace sotto {

struct Task {
  enum class Input { kSpeech, kText };
  // Kind of the training data, and its name.
  Input input;
  std::string_view input_name;
  // Name of one item of that data, singular and plural.
  std::string_view item;
  std::string_view items;
  // Unit of the training speed: the unit of item lengths per second.
  std::string_view speed_unit;
  // Metric that selects the best checkpoint.
  std::string_view metric;
  // Assumptions where no data is given: the name of the data and the size of its vocabulary.
  std::string_view usual_data;
  int64_t usual_vocabulary;
  // Names of the task and of its metrics in model cards; the second metric may be empty.
  std::string_view card_task;
  std::array<std::string_view, 2> card_metrics;

  bool is_speech() const { return input == Input::kSpeech; }
  bool is_text() const { return input == Input::kText; }
  // Returns whether `value` is better than `than`. Error rates and perplexities: lower is better.
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
