// Names, paths and limits of a shell that users did not mean: each is an error in words, never a
// signal and never a fault of ours.
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

#include "support/thrown.h"
#include "support/train_runs.h"

namespace sotto::test {
namespace {

class BadInput : public TrainRuns {
 protected:
  CommandResult in_shell(const std::string& before, const std::string& words) const {
    return run_command({"bash", "-c",
                        "cd '" + folder_.path().string() + "' && " + before + " && exec '" +
                            std::getenv("SOTTO_BINARY") + "' " + words});
  }
};

TEST_F(BadInput, UnusablePaths) {
  ASSERT_EQ(train("run", {"--max-steps", "2"}).exit_code, 0);
  const std::string good = run("run").string();
  const std::string manifest = (folder_.path() / "train.jsonl").string();
  std::string deep = folder_.path().string();
  for (int i = 0; i < 50; ++i) deep += "/" + std::string(100, 'd');
  const std::string missing = (folder_.path() / "missing").string();
  for (const std::string& path : {folder_.path().string() + "/" + std::string(300, 'x'), deep,
                                  missing, missing + "/a\xff" + "b"}) {
    const std::vector<std::vector<std::string>> commands = {
        {"train", "--model", "tiny", "--train", path},
        {"train", "--model", path, "--train", manifest},
        {"train", "--config", path},
        {"train", "--plan", path},
        {"train", "--model", "tiny", "--train", manifest, "--dev", path, "--out", missing},
        {"train", "--model", "tiny", "--train", manifest, "--init-from", path, "--out", missing},
        {"train", "--resume", "--out", path},
        {"train", "--model", "tiny", "--train", manifest, "--set", "data.tokenizer=" + path},
        {"plan", "--model", "tiny", "--train", path},
        {"plan", "--config", path},
        {"rehearse", "--config", path},
        {"find-batch", "--config", path},
        {"profile", "--data", path},
        {"profile", "--model", path},
        {"eval", "--checkpoint", path, "--data", manifest},
        {"eval", "--checkpoint", good, "--data", path},
        {"transcribe", "--checkpoint", path, "a.wav"},
        {"logits", "--model", path, "--audio", "a.wav", "--out", missing},
        {"average", path, "--out", missing},
        {"export", "--model", path, "--out", missing},
        {"data", "check", path},
        {"data", "import", path, "--out", missing},
        {"data", "split", path, "--out", missing},
        {"tokenizer", "train", path, "--out", missing},
        {"tokenizer", "encode", "--tokenizer", path, "a"}};
    for (const std::vector<std::string>& words : commands) {
      const CommandResult result = run_sotto(words);
      EXPECT_EQ(result.exit_code, 2) << words[0] << " " << words[1] << " " << result.err;
    }
  }
}

// The output folders cannot be created.
TEST_F(BadInput, FoldersThatCannotBeCreated) {
  ASSERT_EQ(train("run", {"--max-steps", "2"}).exit_code, 0);
  const std::string good = run("run").string();
  const std::string manifest = (folder_.path() / "train.jsonl").string();
  folder_.write("file", "");
  for (const std::string& path : {folder_.path().string() + "/" + std::string(300, 'x'),
                                  folder_.path().string() + "/file/below"}) {
    const std::vector<std::vector<std::string>> commands = {
        {"train", "--model", "tiny", "--train", manifest, "--max-steps", "1", "--out", path},
        {"plan", "--model", "tiny", "--train", manifest, "--out", path},
        {"plan", "--model", "wav2vec2-base", "--device", "t4", "--for", "transformers", "--out",
         path},
        {"average", good, "--last", "1", "--out", path},
        {"export", "--model", good, "--out", path},
        {"data", "check", manifest, "--write-clean", path},
        {"data", "split", manifest, "--out", path},
        {"tokenizer", "train", manifest, "--type", "char", "--out", path}};
    for (const std::vector<std::string>& words : commands) {
      const CommandResult result = run_sotto(words);
      EXPECT_EQ(result.exit_code, 2) << words[0] << " " << words[1] << " " << result.err;
    }
  }
  const CommandResult named =
      in_shell("true", "train --config tiny.yaml --set name=" + std::string(300, 'n'));
  EXPECT_EQ(named.exit_code, 2) << named.err;
}

TEST_F(BadInput, ZeroByteInPath) {
  folder_.write("zero.yaml", "data: {train: \"train.jsonl\\0x\"}\n");
  const CommandResult result = in_shell("true", "train --model tiny --config zero.yaml");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_PRED2(contains, result.err, "\"train.jsonl\\0x\". Expected a path.");
}

TEST_F(BadInput, FileSizeLimit) {
  const CommandResult result =
      in_shell("ulimit -f 20", "train --config tiny.yaml --max-steps 2 --out small");
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_PRED2(contains, result.err, "File too large");
  EXPECT_PRED2(contains, result.err, "ulimit -f");
}

TEST_F(BadInput, StackTooSmall) {
  const CommandResult refused = in_shell("ulimit -s 512", "train --config tiny.yaml --max-steps 2");
  EXPECT_EQ(refused.exit_code, 2) << refused.err;
  EXPECT_PRED2(contains, refused.err, "the stack is limited to 512 KiB");
  EXPECT_PRED2(contains, refused.err, "Type: ulimit -s 8192");
  // One that may be raised is.
  const CommandResult raised =
      in_shell("ulimit -S -s 512", "train --config tiny.yaml --max-steps 2 --out raised");
  EXPECT_EQ(raised.exit_code, 0) << raised.err;
}

// Every text is empty: the label limit must not be 0, and the checkpoint must be readable.
TEST_F(BadInput, CorpusWithoutLabels) {
  std::string lines;
  std::istringstream all(content_of(folder_.path() / "train.jsonl"));
  for (std::string line; std::getline(all, line);) {
    nlohmann::json utterance = nlohmann::json::parse(line);
    utterance["text"] = "";
    lines += utterance.dump() + "\n";
  }
  folder_.write("train.jsonl", lines);
  folder_.write("vocab.json", R"({"<pad>": 0, "|": 1, "a": 2})");
  const std::vector<std::string> settings = {
      "--set", "data.tokenizer=" + (folder_.path() / "vocab.json").string(),
      "--set", "max_frames=100",
      "--set", "data.dev=\"\""};
  std::vector<std::string> first = settings;
  first.insert(first.end(), {"--max-steps", "2"});
  const CommandResult result = train("silent", first);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  std::vector<std::string> resumed = settings;
  resumed.insert(resumed.end(), {"--max-steps", "4", "--resume"});
  const CommandResult again = train("silent", resumed);
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_TRUE(std::filesystem::exists(run("silent") / "checkpoints/step-4"));
}

}  // namespace
}  // namespace sotto::test
