// `sotto export` as a user meets it: a folder for the Hub with its card, and its upload by a
// program `hf` that is there, fails, or is not there.
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "support/fixture.h"
#include "support/thrown.h"
#include "support/train_runs.h"

namespace sotto::test {
namespace {

namespace fs = std::filesystem;

class Export : public TrainRuns {
 protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  CommandResult export_model(const std::string& model, const std::string& out,
                             const std::vector<std::string>& more = {},
                             const std::vector<std::string>& environment = {}) const {
    std::vector<std::string> words = {"export", "--model", model, "--out", path(out)};
    words.insert(words.end(), more.begin(), more.end());
    return run_sotto(words, environment);
  }
  std::string file(const std::string& name) const { return content_of(folder_.path() / name); }
  // A program of that name that writes down what it was asked for.
  std::string fake_hf(const std::string& last_line) const {
    const fs::path program = folder_.write(
        "bin/hf", "#!/bin/sh\necho \"$@\" > " + path("asked") + "\n" + last_line + "\n");
    fs::permissions(program, fs::perms::owner_all);
    return "PATH=" + path("bin") + ":/usr/bin:/bin";
  }
};

nlohmann::json evaluated(const std::string& folder, const std::string& data) {
  const CommandResult eval = run_sotto({"eval", "--checkpoint", folder, "--data", data, "--json"});
  EXPECT_EQ(eval.exit_code, 0) << eval.err;
  return nlohmann::json::parse(eval.out);
}

TEST_F(Export, WritesAFolderUsableLikeTheRun) {
  ASSERT_EQ(train("run", {"--set", "epochs=12"}).exit_code, 0);
  const CommandResult exported = export_model(
      path("run"), "hub", {"--language", "pl", "--license", "mit", "--push", "me/letters"},
      {"PATH=" + path("nothing")});
  ASSERT_EQ(exported.exit_code, 0) << exported.err;
  for (const char* name : {"README.md", "config.yaml", "state.json", "vocab.json"})
    EXPECT_TRUE(fs::exists(folder_.path() / "hub" / name)) << name;
  EXPECT_FALSE(fs::exists(folder_.path() / "hub" / "optimizer.safetensors"));
  EXPECT_EQ(file("hub/model.safetensors"), file("run/best/model.safetensors"));
  EXPECT_EQ(file("hub/config.yaml").find(folder_.path().string()), std::string::npos);
  const nlohmann::json of_run = evaluated(path("run"), path("dev.jsonl"));
  EXPECT_EQ(evaluated(path("hub"), path("dev.jsonl"))["sentences"], of_run["sentences"]);

  // What the card says is what the run's own files and `sotto eval` say.
  const std::string card = file("hub/README.md");
  const YAML::Node front = YAML::Load(card.substr(4, card.find("\n---\n", 4) - 4));
  EXPECT_EQ(front["license"].as<std::string>(), "mit");
  EXPECT_EQ(front["language"][0].as<std::string>(), "pl");
  EXPECT_EQ(front["library_name"].as<std::string>(), "sotto");
  const double wer = 100.0 * of_run["wer"]["rate"].get<double>();
  EXPECT_NEAR(front["model-index"][0]["results"][0]["metrics"][0]["value"].as<double>(), wer,
              0.005);
  const auto memory = nlohmann::json::parse(file("run/memory.json"));
  const auto bytes = memory["measured"]["peak_bytes"].get<int64_t>();
  EXPECT_PRED2(contains, card, "(" + std::to_string(bytes) + " bytes)");
  EXPECT_PRED2(contains, card, "`train.jsonl`: 48 utterances");
  EXPECT_PRED2(contains, card, "| budget | 100 MiB |");
  EXPECT_EQ(card.find(folder_.path().string()), std::string::npos);
}

TEST_F(Export, OmitsFactsOfMissingRunFiles) {
  ASSERT_EQ(train("run", {"--max-steps", "2"}).exit_code, 0);
  fs::rename(run("run") / "checkpoints/step-2", folder_.path() / "alone");
  fs::remove_all(run("run"));
  ASSERT_EQ(export_model(path("alone"), "hub").exit_code, 0);
  const std::string card = file("hub/README.md");
  EXPECT_PRED2(contains, card, "| steps | 2 |");
  for (const char* part : {"## Results", "model-index", "measured", "hours", "license", "language"})
    EXPECT_EQ(card.find(part), std::string::npos) << part;
}

TEST_F(Export, UploadsWithHf) {
  const std::string model = (fixture_folder() / "wav2vec2" / "stable").string();
  const CommandResult pushed =
      export_model(model, "hub", {"--push", "me/stable"}, {fake_hf("exit 0")});
  ASSERT_EQ(pushed.exit_code, 0) << pushed.err;
  EXPECT_EQ(file("asked"), "upload me/stable " + path("hub") + " .\n");
  EXPECT_PRED2(contains, pushed.out, "uploaded it to me/stable");

  const CommandResult failed = export_model(model, "hub", {"--push", "me/stable"},
                                            {fake_hf("echo 'Token is required' >&2; exit 1")});
  EXPECT_EQ(failed.exit_code, 2);
  for (const char* part : {"hf ended with 1: Token is required", "hf auth login", "hf upload"})
    EXPECT_PRED2(contains, failed.err, part);
  EXPECT_TRUE(fs::exists(folder_.path() / "hub" / "README.md"));

  const CommandResult absent =
      export_model(model, "hub", {"--push", "me/stable"}, {"PATH=" + path("nothing")});
  EXPECT_EQ(absent.exit_code, 0) << absent.err;
  EXPECT_PRED2(contains, absent.out, "  hf upload me/stable " + path("hub") + " .\n");
}

TEST_F(Export, WritesFilesForHuggingFacePipelines) {
  const fs::path model = fixture_folder() / "wav2vec2" / "stable";
  ASSERT_EQ(export_model(model.string(), "hub").exit_code, 0);
  const auto config = nlohmann::json::parse(file("hub/tokenizer_config.json"));
  EXPECT_EQ(config["tokenizer_class"], "Wav2Vec2CTCTokenizer");
  EXPECT_EQ(config["pad_token"], "<pad>");
  EXPECT_EQ(config["unk_token"], "<unk>");
  EXPECT_EQ(config["bos_token"], "<s>");
  EXPECT_EQ(content_of(model / "vocab.json"), file("hub/vocab.json"));
  const std::string card = file("hub/README.md");
  EXPECT_PRED2(contains, card, "library_name: transformers");
  EXPECT_EQ(card.find("## Training"), std::string::npos);
  // One that is there stays as it is.
  fs::copy(folder_.path() / "hub", folder_.path() / "again");
  folder_.write("again/tokenizer_config.json", "{\"mine\": 1}");
  ASSERT_EQ(export_model(path("again"), "third").exit_code, 0);
  EXPECT_EQ(file("third/tokenizer_config.json"), "{\"mine\": 1}");
}

TEST_F(Export, RefusesWhatItCannotExport) {
  const auto refused = [&](const std::string& model, const std::vector<std::string>& more) {
    const CommandResult result = export_model(model, "hub", more);
    EXPECT_EQ(result.exit_code, 2) << result.out;
    EXPECT_FALSE(fs::exists(folder_.path() / "hub"));
    return result.err;
  };
  EXPECT_PRED2(contains, refused("tiny", {}), "which has no weights");
  EXPECT_PRED2(contains, refused(path("nowhere"), {}), "nowhere");
  const std::string model = (fixture_folder() / "wav2vec2" / "stable").string();
  EXPECT_PRED2(contains, refused(model, {"--push", "stable"}), "ORG/NAME");
  EXPECT_PRED2(contains, refused(model, {"--push", "me/stable@main"}), "ORG/NAME");
}

}  // namespace
}  // namespace sotto::test
