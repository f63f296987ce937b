#include "sotto/train/recognition/evaluation.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>
#include <span>
#include <utility>

#include "sotto/data/batch/loader.h"
#include "sotto/data/batch/micro_batch.h"
#include "sotto/data/batch/sampler.h"
#include "sotto/kernels/loss/cross_entropy.h"
#include "sotto/train/step/fit.h"
#include "sotto/train/step/step.h"

namespace sotto::train {

namespace {

using models::Model;

struct Part {
  const data::LoadedStep& step;
  std::span<const int64_t> places;

  const data::Example& example(size_t i) const {
    return step.examples[static_cast<size_t>(places[i])];
  }
};

// Of each utterance.
std::vector<std::string> texts_of(const Model::Recognised& recognised,
                                  const data::Tokenizer& tokenizer, const BeamSearch* beam) {
  std::vector<std::string> texts;
  if (beam == nullptr) {
    for (const auto& labels : recognised.labels) texts.push_back(text_of(labels, tokenizer));
    return texts;
  }
  const at::Tensor logits = recognised.logits.to(at::kCPU, at::kFloat);  // [N, V]
  const float* next = logits.const_data_ptr<float>();
  for (const int64_t num_frames : recognised.num_frames) {
    const auto size = static_cast<size_t>(num_frames * logits.size(1));
    texts.push_back(text_of(beam->decode({next, size}).front().labels, tokenizer));
    next += size;
  }
  return texts;
}

void add_sentences(const Part& part, const Model::Recognised& recognised,
                   const std::vector<std::string>& texts, Evaluation& evaluation) {
  const at::Tensor on_host = recognised.loss.loss.cpu();
  const float* losses = on_host.const_data_ptr<float>();
  for (size_t i = 0; i < part.places.size(); ++i) {
    const data::Example& example = part.example(i);
    Evaluation::Sentence sentence{.utterance = example.utterance,
                                  .reference = example.reference,
                                  .hypothesis = texts[i],
                                  .speaker = example.speaker,
                                  .lang = example.lang,
                                  .words = word_errors(example.reference, texts[i]),
                                  .characters = character_errors(example.reference, texts[i])};
    evaluation.words += sentence.words;
    evaluation.characters += sentence.characters;
    evaluation.loss +=
        losses[i] / std::max<double>(1.0, static_cast<double>(example.labels.size()));
    evaluation.audio_seconds += example.seconds;
    evaluation.sentences.push_back(std::move(sentence));
  }
}

// The sum of losses; the mean is formed at the end.
void add_text(const Part& part, const Model::Recognised& recognised, Evaluation& evaluation) {
  const at::Tensor on_host = recognised.loss.loss.cpu();
  const auto losses = std::span(on_host.const_data_ptr<float>(), on_host.numel());
  evaluation.loss = std::accumulate(losses.begin(), losses.end(), evaluation.loss);
  for (size_t i = 0; i < part.places.size(); ++i) {
    const std::vector<int32_t>& labels = part.example(i).labels;
    evaluation.num_tokens +=
        std::ssize(labels) - std::ranges::count(labels, kernels::CrossEntropy::kNoTarget);
  }
}

}  // namespace

std::string text_of(std::span<const kernels::CtcGreedy::Label> labels,
                    const data::Tokenizer& tokenizer) {
  std::vector<int32_t> entries;
  for (const kernels::CtcGreedy::Label& label : labels) entries.push_back(label.label);
  return tokenizer.decode(entries);
}

std::vector<ErrorGroup> group_errors(const std::vector<Evaluation::Sentence>& sentences,
                                     std::string Evaluation::Sentence::* by) {
  std::map<std::string, ErrorGroup> groups;
  for (const Evaluation::Sentence& sentence : sentences) {
    ErrorGroup& group = groups[sentence.*by];
    group.name = sentence.*by;
    group.words += sentence.words;
    group.characters += sentence.characters;
    ++group.num_utterances;
  }
  std::vector<ErrorGroup> in_order;
  for (auto& [name, group] : groups) in_order.push_back(std::move(group));
  return in_order;
}

std::vector<Evaluation::Sentence> worst_sentences(
    const std::vector<Evaluation::Sentence>& sentences, int64_t count) {
  std::vector<Evaluation::Sentence> worst = sentences;
  std::ranges::stable_sort(worst, std::greater<>(), [](const Evaluation::Sentence& sentence) {
    return std::pair(sentence.words.errors(), sentence.characters.errors());
  });
  if (std::ssize(worst) > count) worst.resize(static_cast<size_t>(count));
  return worst;
}

Evaluation evaluate(Model& model, const data::Source& source, const data::Tokenizer& tokenizer,
                    device::StagingBuffer& staging, const EvaluationOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const data::Sampler sampler(
      {.batch = {.utterances = kLoadedAtOnce}, .curriculum = data::Curriculum::kListed},
      source.lengths());
  const int64_t num_steps = sampler.epoch(0).num_steps();
  data::Loader loader(source, sampler, {.num_threads = options.loader_threads, .start = {}});
  Evaluation evaluation;
  evaluation.num_skipped = source.num_skipped();
  evaluation.skipped.assign(source.skipped().begin(), source.skipped().end());
  for (int64_t i = 0; i < num_steps; ++i) {
    data::LoadedStep step = loader.next();
    evaluation.num_skipped += std::ssize(step.skipped);
    std::move(step.skipped.begin(), step.skipped.end(), std::back_inserter(evaluation.skipped));
    if (step.examples.empty()) continue;
    const bool is_text = !step.examples.front().tokens.empty();
    for (const std::vector<int64_t>& places : split_step(model, step.examples, options.limits)) {
      const Model::Recognised recognised =
          model.recognise(data::make_micro_batch(step.examples, places, options.device, staging));
      const Part part{.step = step, .places = places};
      if (is_text) {
        add_text(part, recognised, evaluation);
      } else {
        add_sentences(part, recognised, texts_of(recognised, tokenizer, options.beam), evaluation);
      }
      evaluation.num_utterances += std::ssize(places);
      if (options.progress) options.progress(evaluation.num_utterances);
    }
  }
  std::ranges::stable_sort(evaluation.sentences, {}, &Evaluation::Sentence::utterance);
  const int64_t num_losses =
      evaluation.is_of_text() ? evaluation.num_tokens : evaluation.num_utterances;
  if (num_losses > 0) evaluation.loss /= static_cast<double>(num_losses);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  evaluation.seconds = elapsed.count();
  return evaluation;
}

}  // namespace sotto::train
