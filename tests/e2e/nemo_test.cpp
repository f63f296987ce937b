// `.nemo` archives as users meet them: named like any other model, trained from, written, and
// refused with the reason.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "support/nemo_fixture.h"
#include "support/run_command.h"
#include "support/thrown.h"
#include "support/tone_recordings.h"

namespace sotto::test {
namespace {

namespace fs = std::filesystem;

class NemoRuns : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    write_recordings(folder_, 8);
    fs::copy_file(nemo_fixture(GetParam()), path("a.nemo"));
  }

  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  CommandResult succeed(const std::vector<std::string>& words) const {
    const CommandResult result = run_sotto(words);
    EXPECT_EQ(result.exit_code, 0) << words[0] << ": " << result.err;
    return result;
  }
  CommandResult train(const std::vector<std::string>& more) const {
    std::vector<std::string> words = {
        "train", "--train",   path("speech.jsonl"), "--dev", path("speech.jsonl"),
        "--out", path("run"), "--memory",           "150MiB"};
    words.insert(words.end(), more.begin(), more.end());
    return succeed(words);
  }
  std::string logits_of(const std::string& model) const {
    succeed({"logits", "--model", path(model), "--audio", path("u3.wav"), "--out", path("logits")});
    return content_of(path("logits"));
  }

  TempFolder folder_;
};

TEST_P(NemoRuns, AreModelsLikeOthers) {
  const nlohmann::json eval = nlohmann::json::parse(
      succeed({"eval", "--model", path("a.nemo"), "--data", path("speech.jsonl"), "--json"}).out);
  EXPECT_EQ(eval["sentences"].size(), 8U);
  succeed({"transcribe", "--model", path("a.nemo"), path("u3.wav")});
  EXPECT_PRED2(contains, succeed({"profile", "--model", path("a.nemo")}).out, "parakeet");
  succeed({"plan", "--model", path("a.nemo"), "--train", path("speech.jsonl"), "--memory", "150MiB",
           "--out", path("planned")});
}

// A run goes on without the archive that it began with.
TEST_P(NemoRuns, StartRunsThatDoNotNeedThemAnyMore) {
  train({"--model", path("a.nemo"), "--max-steps", "2", "--set", "effective_batch=4"});
  fs::remove(path("a.nemo"));
  train({"--resume", "--max-steps", "4"});
  succeed({"eval", "--model", path("run"), "--data", path("speech.jsonl")});
  succeed({"export", "--model", path("run"), "--out", path("out.nemo")});
  const auto text_of = [&](const std::string& model) {
    const nlohmann::json eval = nlohmann::json::parse(
        succeed({"eval", "--model", path(model), "--data", path("speech.jsonl"), "--json"}).out);
    return eval["sentences"].dump();
  };
  EXPECT_EQ(text_of("out.nemo"), text_of("run"));
}

TEST_P(NemoRuns, AreWrittenAndReadBack) {
  succeed({"export", "--model", path("a.nemo"), "--out", path("b.nemo")});
  succeed({"export", "--model", path("b.nemo"), "--out", path("c.nemo")});
  EXPECT_EQ(content_of(path("b.nemo")), content_of(path("c.nemo")));
  if (std::string(GetParam()) == "ctc") {
    EXPECT_EQ(logits_of("b.nemo"), logits_of("a.nemo"));
  }
  // An existing file is not replaced.
  const CommandResult again =
      run_sotto({"export", "--model", path("a.nemo"), "--out", path("b.nemo")});
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_PRED2(contains, again.err, path("b.nemo"));
  // The card is that of a folder.
  const CommandResult card =
      run_sotto({"export", "--model", path("a.nemo"), "--out", path("d.nemo"), "--license", "mit"});
  EXPECT_EQ(card.exit_code, 2);
  EXPECT_PRED2(contains, card.err, "no model card");
}

INSTANTIATE_TEST_SUITE_P(Heads, NemoRuns, ::testing::Values("ctc", "rnnt", "tdt"),
                         [](const auto& test) { return std::string(test.param); });

TEST(NemoInput, BadArchivesEndInOneMessage) {
  const TempFolder folder;
  write_recordings(folder, 2);
  const std::string manifest = (folder.path() / "speech.jsonl").string();
  const std::string good = content_of(nemo_fixture("ctc"));
  const std::string packed = content_of(nemo_fixture("rnnt"));
  const std::vector<std::pair<std::string, std::string>> archives = {
      {good.substr(0, good.size() / 2), "ends after"},
      {packed.substr(0, packed.size() / 2), "truncated"},
      {"", "it is empty"},
      {"text", "archive"},
      {content_of(edited_nemo(folder, "tdt",
                              {.config = [](nlohmann::json& config) { config["aux_ctc"] = 1; }})),
       "a hybrid network"}};
  for (const auto& [content, expected] : archives) {
    const std::string path = folder.write("bad.nemo", content).string();
    const std::vector<std::vector<std::string>> commands = {
        {"eval", "--model", path, "--data", manifest},
        {"transcribe", "--model", path, manifest},
        {"logits", "--model", path, "--audio", manifest, "--out", "unused"},
        {"profile", "--model", path},
        {"plan", "--model", path, "--train", manifest},
        {"train", "--model", path, "--train", manifest, "--out", (folder.path() / "r").string()},
        {"train", "--model", "tiny", "--init-from", path, "--train", manifest, "--out",
         (folder.path() / "r").string()},
        {"export", "--model", path, "--out", (folder.path() / "out.nemo").string()}};
    for (const std::vector<std::string>& words : commands) {
      const CommandResult result = run_sotto(words);
      EXPECT_EQ(result.exit_code, 2) << words[0] << ": " << result.err;
      if (words[2] == "tiny") continue;  // its weights fit no other network anyway
      EXPECT_PRED2(contains, result.err, expected) << words[0];
      EXPECT_PRED2(contains, result.err, path) << words[0];
    }
  }
  EXPECT_FALSE(fs::exists(folder.path() / "out.nemo"));
  const CommandResult missing = run_sotto({"profile", "--model", "missing.nemo"});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_PRED2(contains, missing.err, "reading missing.nemo: No such file");
}

}  // namespace
}  // namespace sotto::test
