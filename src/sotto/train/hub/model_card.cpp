#include "sotto/train/hub/model_card.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "sotto/core/build_info.h"
#include "sotto/core/units.h"

namespace sotto::train {

namespace {

// Quotes words that YAML could misinterpret; JSON strings are valid YAML.
std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', /*ensure_ascii=*/false,
                                   nlohmann::json::error_handler_t::replace);
}

bool is_speech(const ModelFacts& facts) {
  return facts.model.task().is_speech();
}

bool loads_in_transformers(const ModelFacts& facts) {
  return facts.model.family().hugging_face.has_value();
}

// Returns the name that a user passes to load the model.
const std::string& source_of(const ModelFacts& facts) {
  return facts.repository.empty() ? facts.title : facts.repository;
}

std::string file_name(const std::filesystem::path& path) {
  return path.filename().string();
}

std::string percent(const decode::ErrorCounts& counts) {
  return fmt::format("{:.2f}", 100.0 * counts.rate());
}

// Whether the Hub shows results beside the model: only where these very weights were evaluated, on
// data that has a name.
bool has_own_results(const ModelFacts& facts) {
  return facts.run && facts.run->evaluation && facts.run->evaluated_step == facts.run->step &&
         !facts.run->config.data.dev.empty();
}

std::string list_entry(std::string_view key, const std::vector<std::string>& values) {
  std::string text = fmt::format("{}:\n", key);
  for (const std::string& value : values) text += fmt::format("- {}\n", quoted(value));
  return text;
}

std::string metric_entry(std::string_view type, std::string_view name, std::string_view value) {
  return fmt::format("    - type: {}\n      name: {}\n      value: {}\n", type, name, value);
}

std::string model_index(const ModelFacts& facts) {
  const Evaluation& evaluation = *facts.run->evaluation;
  const std::string dev = quoted(file_name(facts.run->config.data.dev));
  std::string text = fmt::format(
      "model-index:\n- name: {}\n  results:\n  - task:\n      type: {}\n    dataset:\n"
      "      name: {}\n      type: {}\n    metrics:\n",
      quoted(facts.title), facts.model.task().card_task, dev, dev);
  if (evaluation.task->is_text())
    return text +
           metric_entry("perplexity", "perplexity", fmt::format("{:.2f}", evaluation.perplexity()));
  return text + metric_entry("wer", "WER in percent", percent(evaluation.words)) +
         metric_entry("cer", "CER in percent", percent(evaluation.characters));
}

std::string front_matter(const ModelFacts& facts) {
  std::string text = fmt::format("---\nlibrary_name: {}\npipeline_tag: {}\n",
                                 loads_in_transformers(facts) ? "transformers" : "sotto",
                                 facts.model.task().card_task);
  if (!facts.languages.empty()) text += list_entry("language", facts.languages);
  if (!facts.license.empty()) text += fmt::format("license: {}\n", quoted(facts.license));
  if (!facts.base_model.empty()) text += fmt::format("base_model: {}\n", quoted(facts.base_model));
  text += list_entry("tags", {"sotto", facts.profile.family});
  if (has_own_results(facts)) {
    text += "metrics:\n";
    for (const std::string_view metric : facts.model.task().card_metrics)
      if (!metric.empty()) text += fmt::format("- {}\n", metric);
    text += model_index(facts);
  }
  return text + "---\n";
}

std::string kind_of(const ModelFacts& facts) {
  return facts.model.describe({.feature_dim = facts.feature_dim});
}

std::string about(const ModelFacts& facts) {
  std::string text =
      fmt::format("{}: {:.2f} million parameters, {} layers of width {}", kind_of(facts),
                  static_cast<double>(facts.profile.parameters) / 1e6, facts.profile.layers,
                  facts.profile.width);
  text += fmt::format(", {} entries of output", facts.profile.vocabulary);
  if (facts.tokenizer == CardTokenizer::kCharacters) text += " (characters, `vocab.json`)";
  if (facts.tokenizer == CardTokenizer::kSentencePiece)
    text += " (SentencePiece, `tokenizer.model`)";
  if (facts.tokenizer == CardTokenizer::kByteBpe) text += " (byte-level BPE)";
  text += '.';
  if (is_speech(facts) && facts.feature_dim == 0)
    text += fmt::format(" It takes audio at {} Hz.", facts.model.sample_rate());
  if (!facts.base_model.empty())
    text += fmt::format(" Training started from the weights of `{}`.", facts.base_model);
  return text + "\n";
}

std::string row(std::string_view key, std::string_view value) {
  return fmt::format("| {} | {} |\n", key, value);
}

std::string counts_text(const decode::ErrorCounts& counts) {
  return fmt::format("{} % (insertions {}, deletions {}, substitutions {} of {})", percent(counts),
                     counts.insertions, counts.deletions, counts.substitutions,
                     counts.reference_length);
}

std::string results(const RunFacts& run) {
  if (!run.evaluation) return {};
  const Evaluation& evaluation = *run.evaluation;
  std::string text = "\n## Results\n\n";
  if (!run.config.data.dev.empty())
    text += fmt::format("On `{}`", file_name(run.config.data.dev));
  else
    text += "On the evaluation data of the run";
  if (evaluation.num_utterances > 0)
    text += fmt::format(", {} utterances, {} of audio", evaluation.num_utterances,
                        format_duration(evaluation.audio_seconds));
  if (run.evaluated_step != run.step)
    text += fmt::format(", for the weights after step {}, not for these", run.evaluated_step);
  text += ":\n\n| | |\n| --- | --- |\n";
  if (evaluation.task->is_text())
    return text + row("perplexity", fmt::format("{:.2f}", evaluation.perplexity())) +
           row("loss per token", fmt::format("{:.4f}", evaluation.loss));
  text += row("WER", counts_text(evaluation.words)) +
          row("CER", counts_text(evaluation.characters)) +
          "\nGreedy decoding without a language model.\n";
  const decode::NormalizerKind normalizer = run.config.decode.normalizer;
  if (normalizer != decode::NormalizerKind::kNone)
    text += fmt::format("\nTexts were normalised before they were compared: `{}`, as Whisper's.\n",
                        name_of(normalizer, decode::kNormalizerKinds));
  return text;
}

std::string use_in_transformers(const ModelFacts& facts) {
  const bool is_wav2vec2 = facts.profile.family == "wav2vec2";
  if (!loads_in_transformers(facts) || !(facts.has_pipeline || is_wav2vec2)) return {};
  std::string text = "\nIn Python, with transformers:\n\n```python\nimport soundfile\n";
  if (facts.has_pipeline) {
    return text + fmt::format(
                      "from transformers import pipeline\n\n"
                      "recognise = pipeline(\"automatic-speech-recognition\", model={})\n"
                      "samples, rate = soundfile.read(\"speech.wav\")\n"
                      "print(recognise({{\"raw\": samples, \"sampling_rate\": rate}})[\"text\"])\n"
                      "```\n",
                      quoted(source_of(facts)));
  }
  return text + fmt::format(
                    "from transformers import Wav2Vec2FeatureExtractor, Wav2Vec2ForCTC\n\n"
                    "extractor = Wav2Vec2FeatureExtractor.from_pretrained({0})\n"
                    "model = Wav2Vec2ForCTC.from_pretrained({0})\n"
                    "samples, rate = soundfile.read(\"speech.wav\")\n"
                    "inputs = extractor(samples, sampling_rate=rate, return_tensors=\"pt\")\n"
                    "print(model(**inputs).logits.argmax(-1))\n"
                    "```\n",
                    quoted(source_of(facts)));
}

std::string use(const ModelFacts& facts) {
  std::string lines;
  const std::string& folder = facts.title;
  if (!facts.repository.empty())
    lines += fmt::format("hf download {} --local-dir {}\n", facts.repository, folder);
  // A Hugging Face folder can recognise where it has a vocabulary.
  const bool recognises = facts.is_checkpoint || facts.tokenizer != CardTokenizer::kNone;
  if (recognises && is_speech(facts)) {
    if (facts.feature_dim == 0)
      lines += fmt::format("sotto transcribe --model {} speech.wav\n", folder);
    lines += fmt::format("sotto eval --model {} --data test.jsonl\n", folder);
  } else if (facts.is_checkpoint) {
    lines += fmt::format("sotto eval --model {} --data text.txt\n", folder);
  }
  if (loads_in_transformers(facts))
    lines += fmt::format("sotto train --model {} --train train.jsonl --memory 8GiB\n", folder);
  const std::string with_sotto =
      lines.empty() ? ""
                    : fmt::format("\nWith sotto, on the command line:\n\n```sh\n{}```\n", lines);
  return "\n## Use\n" + with_sotto + use_in_transformers(facts);
}

std::string data_text(const RunFacts& run) {
  std::string name =
      run.config.data.train.empty() ? "" : fmt::format("`{}`", file_name(run.config.data.train));
  if (!run.epoch) return name;
  const EpochAmount& epoch = *run.epoch;
  const std::string amount =
      epoch.num_tokens > 0
          ? fmt::format("{} rows, {} tokens", epoch.num_items, epoch.num_tokens)
          : fmt::format("{} utterances, {:.2f} hours", epoch.num_items, epoch.audio_seconds / 3600);
  return name.empty() ? amount : fmt::format("{}: {}", name, amount);
}

std::string numerics_text(const RunConfig& config) {
  std::vector<std::string> parts = {std::string(name_of(config.numerics, kNumerics))};
  const PrecisionOptions& chosen = config.precision;
  if (chosen.compute)
    parts.push_back(fmt::format("computed in {}", name_of(*chosen.compute, kComputes)));
  if (chosen.remainder_bits)
    parts.push_back(fmt::format("{} bits in addition to bf16 weights", *chosen.remainder_bits));
  if (chosen.gradients)
    parts.push_back(fmt::format("gradients in {}", name_of(*chosen.gradients, kGradientTypes)));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string optimizer_text(const RunConfig& config) {
  const optim::OptimizerOptions& optimizer = config.optimizer;
  return fmt::format("AdamW, beta {} and {}, epsilon {}, weight decay {}, moments in {}, {}",
                     optimizer.beta1, optimizer.beta2, optimizer.epsilon, optimizer.weight_decay,
                     name_of(config.arithmetic().moments, optim::kMoments),
                     optimizer.clip_norm > 0.0
                         ? fmt::format("gradients clipped to a norm of {}", optimizer.clip_norm)
                         : "gradients not clipped");
}

std::string rate_text(const optim::ScheduleOptions& schedule) {
  std::string text =
      fmt::format("{}, {}", schedule.rate, name_of(schedule.kind, optim::kScheduleKinds));
  if (schedule.warmup_steps > 0)
    text += fmt::format(", {} steps of warm-up", schedule.warmup_steps);
  if (schedule.warmup_share > 0.0)
    text += fmt::format(", warm-up over {} of all steps", schedule.warmup_share);
  return text;
}

std::string training(const RunFacts& run) {
  const RunConfig& config = run.config;
  std::string text = "\n## Training\n\n| | |\n| --- | --- |\n";
  if (const std::string data = data_text(run); !data.empty()) text += row("data", data);
  text += row("steps", fmt::format("{}", run.step));
  const std::string batch = config.effective_batch.to_string();
  text += row("effective batch", config.effective_batch.kind == data::EffectiveBatch::Kind::kSeconds
                                     ? batch
                                     : fmt::format("{} {}", batch, config.model.task().items));
  if (config.stages.empty()) {
    text += row("learning rate", rate_text(config.optimizer.schedule));
  } else {
    text += row("stages", describe(config.stages));
    for (size_t i = 0; i < config.stages.size(); ++i)
      text += row(fmt::format("learning rate of stage {}", i + 1),
                  rate_text(config.stages[i].schedule));
  }
  text += row("optimizer", optimizer_text(config));
  text += row("numerics", numerics_text(config));
  text += row("loss", name_of(config.reduction, kReductions));
  text += row("seed", fmt::format("{}", config.seed));
  return text + "\n`config.yaml` has every setting.\n";
}

std::string budget_text(const MemorySize& memory) {
  switch (memory.kind) {
    case MemorySize::Kind::kAuto: return "auto: 85 % of the free memory";
    case MemorySize::Kind::kShare: return memory.to_string() + " of the free memory";
    case MemorySize::Kind::kBytes: break;
  }
  return format_bytes(memory.bytes);
}

std::string memory(const RunFacts& run) {
  const auto exact = [](int64_t bytes) {
    return fmt::format("{} ({} bytes)", format_bytes(bytes), bytes);
  };
  std::string text = "\n## Memory\n\n| | |\n| --- | --- |\n";
  text += row("device", run.config.device);
  text += row("budget", budget_text(run.config.memory));
  if (run.planned_peak_bytes) text += row("first step, planned", exact(*run.planned_peak_bytes));
  if (run.measured_peak_bytes) text += row("first step, measured", exact(*run.measured_peak_bytes));
  if (run.largest_peak_bytes) text += row("largest step", exact(*run.largest_peak_bytes));
  return text;
}

}  // namespace

std::string model_card(const ModelFacts& facts) {
  std::string text = front_matter(facts) + fmt::format("\n# {}\n\n", facts.title) + about(facts);
  if (facts.run) text += results(*facts.run);
  text += use(facts);
  if (facts.run) text += training(*facts.run) + memory(*facts.run);
  return text + fmt::format("\nExported by sotto {}.\n", build_info().version);
}

}  // namespace sotto::train
