// `sotto train` and `eval` of a language model on text, as a user meets them.
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "support/byte_vocabulary.h"
#include "support/run_command.h"
#include "support/temp_folder.h"
#include "support/thrown.h"

namespace sotto::test {
namespace {

using nlohmann::json;

// Sentences in which each letter follows from those before it, most of the time.
std::string sentences(int first, int count) {
  const std::vector<std::string> words = {"banana", "cedar", "dilemma", "fog", "gull", "kayak"};
  std::string text;
  for (int i = first; i < first + count; ++i) {
    text += words[static_cast<size_t>(i % 6)] + " " + words[static_cast<size_t>(i / 6 % 6)] + " " +
            words[static_cast<size_t>(i * 5 % 6)] + "\n";
  }
  return text;
}

class LanguageModel : public testing::Test {
 protected:
  LanguageModel() {
    folder_.write("train.txt", sentences(0, 150));
    // With a letter that the other text lacks.
    folder_.write("dev.txt", sentences(7, 39) + "zebra fog kayak\n");
    folder_.write("lm.yaml",
                  "name: lm\n"
                  "memory: 60MiB\n"
                  "model: {preset: decoder-lm, layers: 2, width: 32, heads: 2, hidden: 64}\n"
                  "data: {row_tokens: 48, documents: line}\n"
                  "reduction: tokens\n"
                  "optimizer: {schedule: {kind: constant, rate: 0.003}}\n"
                  "effective_batch: 8\n"
                  "epochs: 3\n"
                  "checkpoint_every: 5\n");
  }

  std::string in(const std::string& name) const { return (folder_.path() / name).string(); }
  std::vector<std::string> words(const std::string& out,
                                 const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"train",         "--config", in("lm.yaml"), "--train",
                                    in("train.txt"), "--dev",    in("dev.txt"), "--out",
                                    in(out),         "--json"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::string weights(const std::string& out) const {
    return content_of(folder_.path() / out / "best" / "model.safetensors");
  }
  void expect_refusal(const std::vector<std::string>& more, const std::string& part) const {
    const CommandResult result = run_sotto(words("refused", more));
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_PRED2(contains, result.err, part);
  }

  TempFolder folder_;
};

TEST_F(LanguageModel, LearnsFromText) {
  const CommandResult result = run_sotto(words("run", {"--set", "epochs=20"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_PRED2(contains, result.err, "equal to the byte");
  EXPECT_PRED2(contains, result.err, "tokens/s");
  const json summary = json::parse(result.out);
  // Of some twenty characters.
  EXPECT_LT(summary["best_perplexity"], 3.0);
  EXPECT_GT(summary["best_perplexity"], 1.0);
  EXPECT_GT(summary["tokens"], 20 * 2500);
  EXPECT_FALSE(summary.contains("wer"));

  const CommandResult eval =
      run_sotto({"eval", "--checkpoint", in("run"), "--data", in("dev.txt"), "--json"});
  ASSERT_EQ(eval.exit_code, 0) << eval.err;
  const json evaluated = json::parse(eval.out);
  EXPECT_EQ(evaluated["perplexity"], summary["best_perplexity"]);
  // Every character but the last of a document is foreseen from the one before it.
  const std::string text = content_of(in("dev.txt"));
  EXPECT_EQ(evaluated["tokens"], std::ssize(text) - 2 * 40);
  const CommandResult plain =
      run_sotto({"eval", "--checkpoint", in("run"), "--data", in("dev.txt")});
  EXPECT_PRED2(contains, plain.out, "perplexity ");
  EXPECT_PRED2(contains, plain.out, "tokens/s");
}

// A third of the memory: more micro-batches, and the same network up to the order of sums.
TEST_F(LanguageModel, LearnsTheSameInLessMemory) {
  const CommandResult whole = run_sotto(words("whole"));
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  const json most = json::parse(whole.out);
  const auto bytes = most["peak_bytes"].get<int64_t>();
  const CommandResult split =
      run_sotto(words("split", {"--memory", std::to_string(bytes / 3) + "B"}));
  ASSERT_EQ(split.exit_code, 0) << split.err;
  const json least = json::parse(split.out);
  EXPECT_LE(least["peak_bytes"], bytes / 3);
  EXPECT_NEAR(least["perplexity"], most["perplexity"], 1e-3);
}

TEST_F(LanguageModel, ResumesBitExactlyAfterKill) {
  ASSERT_EQ(run_sotto(words("whole")).exit_code, 0);
  const auto lines = [&] {
    const std::string record = content_of(folder_.path() / "killed" / "metrics.jsonl");
    return std::count(record.begin(), record.end(), '\n');
  };
  EXPECT_EQ(
      run_sotto_and_signal(words("killed", {"--resume"}), SIGKILL, [&] { return lines() > 8; }),
      -SIGKILL);
  ASSERT_EQ(run_sotto(words("killed", {"--resume"})).exit_code, 0);
  EXPECT_EQ(weights("killed"), weights("whole"));

  folder_.write("train.txt", sentences(0, 151));
  const CommandResult changed = run_sotto(words("killed", {"--resume", "--set", "epochs=9"}));
  EXPECT_EQ(changed.exit_code, 2);
  EXPECT_PRED2(contains, changed.err, "train.txt has changed");
}

TEST_F(LanguageModel, RefusesSpeechSettings) {
  expect_refusal({"--set", "data.max_seconds=20"},
                 "data.max_seconds: 20. Expected none: the network learns from text");
  expect_refusal({"--set", "data.augment.speed=[0.9, 1.1]"}, "data.augment.speed");
  expect_refusal({"--set", "effective_batch=60s"},
                 "effective_batch 60s. Expected a number of rows");
  expect_refusal({"--set", "curriculum=sorted"}, "curriculum sorted");
  expect_refusal({"--set", "model.positions=learned", "--set", "model.max_tokens=40"},
                 "rows of 48 tokens. Expected at most model.max_tokens 40");
  expect_refusal({"--memory", "300KiB"}, "the longest row of text alone needs");
  const CommandResult gone = run_sotto(
      {"train", "--config", in("lm.yaml"), "--train", in("gone.txt"), "--out", in("refused")});
  EXPECT_EQ(gone.exit_code, 2);
  EXPECT_PRED2(contains, gone.err, "gone.txt");
  const CommandResult speech = run_sotto(
      {"train", "--model", "tiny", "--train", in("train.txt"), "--set", "data.row_tokens=64"});
  EXPECT_EQ(speech.exit_code, 2);
  EXPECT_PRED2(contains, speech.err,
               "data.row_tokens: 64. Expected none: the network learns from speech");
}

TEST_F(LanguageModel, LearnsWithAByteLevelBpe) {
  const TempFolder whisper;
  write_tiny_whisper(whisper);
  const std::string tokenizer = "data.tokenizer=" + whisper.path().string();
  const CommandResult trained = run_sotto(words("run", {"--max-steps", "10", "--set", tokenizer}));
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_EQ(content_of(folder_.path() / "run" / "best" / "merges.txt"),
            content_of(whisper.path() / "merges.txt"));
  const CommandResult eval =
      run_sotto({"eval", "--model", in("run"), "--data", in("dev.txt"), "--json"});
  ASSERT_EQ(eval.exit_code, 0) << eval.err;
  // One token per byte, merges aside, and one for the end of each line.
  EXPECT_GT(json::parse(eval.out)["tokens"], 400);
  const CommandResult refused = run_sotto(
      {"eval", "--model", in("run"), "--data", in("dev.txt"), "--set", "decode.normalizer=basic"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_PRED2(contains, refused.err, "does not transcribe");
}

TEST_F(LanguageModel, CannotTranscribe) {
  ASSERT_EQ(run_sotto(words("run", {"--max-steps", "1"})).exit_code, 0);
  folder_.write("a.wav", "?");
  const CommandResult transcribed =
      run_sotto({"transcribe", "--checkpoint", in("run"), in("a.wav")});
  EXPECT_EQ(transcribed.exit_code, 2);
  EXPECT_PRED2(contains, transcribed.err, "a language model");
  const CommandResult shown =
      run_sotto({"eval", "--checkpoint", in("run"), "--data", in("dev.txt"), "--show", "2"});
  EXPECT_EQ(shown.exit_code, 2);
  EXPECT_PRED2(contains, shown.err, "--show");
}

}  // namespace
}  // namespace sotto::test
