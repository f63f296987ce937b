// Parakeet networks as users start from them: folders that hold all that transformers needs,
// another tokenizer than the network's own, a tokenizer that does not fit, and hybrid networks.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sotto/core/build_info.h"
#include "sotto/core/formats/weight_folder.h"
#include "support/run_command.h"
#include "support/temp_folder.h"
#include "support/thrown.h"
#include "support/tone_recordings.h"

namespace sotto::test {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kPieces = 10, kOtherPieces = 14;

class ParakeetRuns : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (build_info().text.find("no SentencePiece") != std::string::npos)
      GTEST_SKIP() << "this build has no SentencePiece";
    write_recordings(folder_, 8);
    std::string text, other;
    for (int i = 0; i < 40; ++i) {
      text += "abc cab bad dab abba\n";
      other += "dcba abcd acbd bdca\n";
    }
    folder_.write("text.txt", text);
    folder_.write("other.txt", other);
    make_tokenizer("text.txt", kPieces, "first.model");
    make_tokenizer("other.txt", kOtherPieces, "other.model");
    make_tokenizer("other.txt", kPieces, "same_size.model");
    ASSERT_EQ(
        train("run",
              {"--model", "parakeet-tiny", "--set", "data.tokenizer=" + path("first.model"),
               "--set", "model.objective=" + GetParam(), "--set", "model.layers=1", "--set",
               "model.width=16", "--set", "model.heads=2", "--set", "model.hidden=16", "--set",
               "model.subsampling_channels=4", "--set", "model.features.num_mels=16"})
            .exit_code,
        0);
    ASSERT_EQ(run_sotto({"export", "--model", path("run"), "--out", path("hub")}).exit_code, 0);
  }

  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  void make_tokenizer(const std::string& text, int64_t size, const std::string& out) const {
    const CommandResult result = run_sotto({"tokenizer", "train", path(text), "--type", "bpe",
                                            "--size", std::to_string(size), "--out", path(out)});
    ASSERT_EQ(result.exit_code, 0) << result.err;
  }

  // One update that changes nothing: what a run starts from is in its checkpoint.
  CommandResult train(const std::string& out, const std::vector<std::string>& more) const {
    std::vector<std::string> words = {
        "train",  "--train", path("speech.jsonl"),        "--out",       path(out), "--memory",
        "150MiB", "--set",   "optimizer.schedule.rate=0", "--max-steps", "1"};
    words.insert(words.end(), more.begin(), more.end());
    return run_sotto(words);
  }

  fs::path checkpoint(const std::string& out) const {
    return folder_.path() / out / "checkpoints" / "step-1";
  }

  // A folder as other tools have it: settings, weights and one file of a tokenizer.
  std::string foreign(const std::string& name, const fs::path& tokenizer) const {
    const fs::path made = folder_.path() / name;
    fs::create_directories(made);
    for (const char* file : {"config.json", "model.safetensors", "preprocessor_config.json"})
      fs::copy_file(folder_.path() / "hub" / file, made / file);
    fs::copy_file(tokenizer,
                  made / (tokenizer.extension() == ".json" ? "tokenizer.json" : "tokenizer.model"));
    return made.string();
  }

  nlohmann::json json_in(const fs::path& file) const {
    return nlohmann::json::parse(content_of(file));
  }

  TempFolder folder_;
};

bool is_of_vocabulary(const std::string& name) {
  return name.starts_with("ctc_head.") || name.starts_with("decoder.embedding.") ||
         name.starts_with("joint.head.");
}

// Names of tensors that differ between two folders.
std::vector<std::string> differing(const fs::path& first, const fs::path& second) {
  const WeightFolder a = WeightFolder::open(first), b = WeightFolder::open(second);
  std::vector<std::string> names;
  for (const std::string& name : a.names()) {
    const TensorView *one = a.find(name), *other = b.find(name);
    const bool is_same =
        other != nullptr && one->shape == other->shape &&
        std::memcmp(one->bytes.data(), other->bytes.data(), one->bytes.size()) == 0;
    if (!is_same) names.push_back(name);
  }
  return names;
}

TEST_P(ParakeetRuns, WriteWhatTransformersReads) {
  for (const fs::path& folder : {checkpoint("run"), folder_.path() / "hub"}) {
    for (const char* file :
         {"config.json", "tokenizer.json", "tokenizer.model", "preprocessor_config.json"})
      EXPECT_TRUE(fs::exists(folder / file)) << file;
    const nlohmann::json processor = json_in(folder / "processor_config.json");
    EXPECT_EQ(processor["processor_class"], "ParakeetProcessor");
    EXPECT_EQ(processor["decoder_type"], GetParam());
    EXPECT_EQ(processor["blank_token"], "<pad>");
    EXPECT_EQ(processor["feature_extractor"]["feature_size"], 16);
    const nlohmann::json tokenizer = json_in(folder / "tokenizer_config.json");
    EXPECT_EQ(tokenizer["tokenizer_class"], "ParakeetTokenizer");
    EXPECT_EQ(tokenizer["pad_token"], "<pad>");
    EXPECT_EQ(tokenizer["unk_token"], "<unk>");
    EXPECT_EQ(fs::exists(folder / "generation_config.json"), GetParam() != "ctc");
  }
}

// tokenizer.json alone is enough, and is written again as it was.
TEST_P(ParakeetRuns, KeepTheEntriesOfAFolderThatIsReadAndWritten) {
  const std::string start = foreign("start", folder_.path() / "hub" / "tokenizer.json");
  const CommandResult result = train("again", {"--model", start});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(content_of(checkpoint("again") / "tokenizer.json"),
            content_of(folder_.path() / "hub" / "tokenizer.json"));
  EXPECT_EQ(differing(folder_.path() / "hub", checkpoint("again")), std::vector<std::string>());
  for (const char* text : {"abc cab", "dab x abba"}) {
    const auto labels = [&](const std::string& tokenizer) {
      return run_sotto({"tokenizer", "encode", "--tokenizer", tokenizer, text}).out;
    };
    EXPECT_EQ(labels(checkpoint("again").string()), labels(path("first.model")));
  }
}

TEST_P(ParakeetRuns, AnotherTokenizerHasANewHead) {
  const std::string start = foreign("start", path("first.model"));
  for (const char* other : {"other.model", "same_size.model"}) {
    SCOPED_TRACE(other);
    const std::string out = std::string("with_") + other;
    // Another seed than that of the first run, whose head began with the same random weights.
    const CommandResult result =
        train(out, {"--model", start, "--set", "data.tokenizer=" + path(other), "--set", "seed=2"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const std::string names_new =
        GetParam() == "ctc" ? "ctc_head.weight, ctc_head.bias"
                            : "decoder.embedding.weight, joint.head.weight, joint.head.bias";
    EXPECT_PRED2(contains, result.err,
                 "its vocabulary differs: " + names_new + " start from random weights");
    const std::vector<std::string> names = differing(folder_.path() / "hub", checkpoint(out));
    // Biases begin with 0, as those of the first run.
    const bool has_other_bias = std::string(other) == "other.model";
    EXPECT_EQ(names.size(), (GetParam() == "ctc" ? 1u : 2u) + (has_other_bias ? 1u : 0u));
    for (const std::string& name : names) EXPECT_TRUE(is_of_vocabulary(name)) << name;
    const auto pieces = has_other_bias ? kOtherPieces : kPieces;
    EXPECT_EQ(json_in(checkpoint(out) / "config.json")["vocab_size"], pieces);
  }
}

TEST_P(ParakeetRuns, RefuseATokenizerThatIsLargerThanTheirHead) {
  const std::string start = foreign("start", path("other.model"));
  const CommandResult result = train("refused", {"--model", start});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_PRED2(contains, result.err, "its tokenizer has 14 entries, its head 10 outputs");
  EXPECT_PRED2(contains, result.err, "--set data.tokenizer=FILE");
  const CommandResult evaluated =
      run_sotto({"eval", "--model", start, "--data", path("speech.jsonl")});
  EXPECT_EQ(evaluated.exit_code, 2);
  EXPECT_PRED2(contains, evaluated.err, "at most 10");
}

TEST_P(ParakeetRuns, RefuseHybridsByName) {
  const std::string start = foreign("start", path("first.model"));
  nlohmann::json config = json_in(fs::path(start) / "config.json");
  config["aux_ctc"] = {{"ctc_loss_weight", 0.3}};
  folder_.write("start/config.json", config.dump());
  const CommandResult folder = train("refused", {"--model", start});
  EXPECT_EQ(folder.exit_code, 2);
  EXPECT_PRED2(contains, folder.err, "hybrid networks");
  folder_.write("hybrid.yaml", "model:\n  preset: parakeet-tiny\n  ctc_loss_weight: 0.3\n");
  const CommandResult file = train("refused", {"--config", path("hybrid.yaml")});
  EXPECT_EQ(file.exit_code, 2);
  EXPECT_PRED2(contains, file.err, "line 3");
  EXPECT_PRED2(contains, file.err, "Hybrid networks are not supported");
}

// A file as people have it for other tools, run here on a CPU.
TEST_P(ParakeetRuns, UsersFileIsTrained) {
  folder_.write("user.yaml", "model:\n  name: " + path("hub") +
                                 "\n  gradient_checkpointing: true\n"
                                 "data:\n  train_manifest: speech.jsonl\n"
                                 "  val_manifest: speech.jsonl\n  max_samples: -1\n"
                                 "training:\n  per_device_train_batch_size: 2\n"
                                 "  per_device_eval_batch_size: 3\n"
                                 "  gradient_accumulation_steps: 2\n  learning_rate: 1.0e-3\n"
                                 "  num_train_epochs: 1\n  optim: adamw_8bit\n  num_gpus: 1\n");
  const CommandResult result =
      run_sotto({"train", "--config", path("user.yaml"), "--train", path("speech.jsonl"), "--dev",
                 path("speech.jsonl"), "--device", "cpu", "--memory", "150MiB", "--out",
                 path("user"), "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(nlohmann::json::parse(result.out)["steps"], 2);
  const std::string config = content_of(folder_.path() / "user" / "config.yaml");
  for (const char* line : {"effective_batch: \"4\"", "micro_batch: 2", "evaluation_micro_batch: 3",
                           "tier: block", "moments: \"8bit\""})
    EXPECT_PRED2(contains, config, line);
  EXPECT_PRED2(contains, config, "init_from: " + path("hub"));
  // The command line goes before the file.
  folder_.write("elsewhere.yaml", "model: {name: nowhere/nothing}\n");
  EXPECT_EQ(train("chosen", {"--config", path("elsewhere.yaml"), "--model", path("hub")}).exit_code,
            0);
  const CommandResult twice =
      train("refused", {"--model", path("hub"), "--set", "model.name=" + path("hub")});
  EXPECT_EQ(twice.exit_code, 2);
  EXPECT_PRED2(contains, twice.err, "--set model.name=");
}

INSTANTIATE_TEST_SUITE_P(Kinds, ParakeetRuns, ::testing::Values("ctc", "rnnt", "tdt"),
                         [](const auto& one) { return one.param; });

}  // namespace
}  // namespace sotto::test
