#include "sotto/core/files/hub_cache.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <optional>

#include "sotto/core/error.h"
#include "support/temp_folder.h"
#include "support/thrown.h"

namespace sotto {
namespace {

using test::contains;
using test::message_of;
using test::TempFolder;

// The variables that say where the cache is, as they are told and only as long as this lives.
class Variables {
 public:
  explicit Variables(const std::map<std::string, std::string>& set) {
    for (const char* name : {"HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "HOME"}) {
      const char* value = std::getenv(name);
      before_[name] = value == nullptr ? std::nullopt : std::optional<std::string>(value);
      const auto found = set.find(name);
      give(name, found == set.end() ? std::nullopt : std::optional(found->second));
    }
  }
  ~Variables() {
    for (const auto& [name, value] : before_) give(name, value);
  }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;

 private:
  static void give(const std::string& name, const std::optional<std::string>& value) {
    if (value) {
      setenv(name.c_str(), value->c_str(), 1);
    } else {
      unsetenv(name.c_str());
    }
  }

  std::map<std::string, std::optional<std::string>> before_;
};

// A model as `hf download` leaves it: files are links into blobs.
std::filesystem::path download(const TempFolder& folder, const std::string& below,
                               const std::string& commit = "0123abcd") {
  const std::filesystem::path model = std::filesystem::path(below) / "models--org--a.Name_1-b";
  folder.write(model / "refs" / "main", commit);
  folder.write(model / "blobs" / "77", "{}");
  const std::filesystem::path snapshot = folder.path() / model / "snapshots" / commit;
  std::filesystem::create_directories(snapshot);
  std::filesystem::create_symlink("../../blobs/77", snapshot / "config.json");
  return snapshot;
}

const std::string kId = "org/a.Name_1-b";

TEST(HubCache, IsFoundThroughEnvironmentVariables) {
  const TempFolder folder;
  const auto at = [&](const std::string& below) { return (folder.path() / below).string(); };
  const auto hub = download(folder, "a");
  const auto home = download(folder, "b/hub");
  const auto cache = download(folder, "c/huggingface/hub");
  const auto user = download(folder, "d/.cache/huggingface/hub");
  std::map<std::string, std::string> set = {{"HF_HUB_CACHE", at("a")},
                                            {"HF_HOME", at("b")},
                                            {"XDG_CACHE_HOME", at("c")},
                                            {"HOME", at("d")}};
  for (const auto& [variable, expected] :
       {std::pair("HF_HUB_CACHE", hub), {"HF_HOME", home}, {"XDG_CACHE_HOME", cache}}) {
    const Variables variables(set);
    EXPECT_EQ(find_hub_folder(kId), expected) << variable;
    set[variable] = "";  // as good as not set
  }
  const Variables variables(set);
  EXPECT_EQ(find_hub_folder(kId), user);
  EXPECT_EQ(test::content_of(find_hub_folder(kId) / "config.json"), "{}");
}

TEST(HubCache, RevisionIsABranchTagOrCommit) {
  const TempFolder folder;
  const auto main = download(folder, "");
  const std::filesystem::path model = "models--org--a.Name_1-b";
  folder.write(model / "refs" / "v1.0", "ffff\n");
  folder.write(model / "refs" / "refs" / "pr" / "3", "eeee");
  for (const std::string commit : {"ffff", "eeee"})
    std::filesystem::create_directories(folder.path() / model / "snapshots" / commit);
  const Variables variables({{"HF_HUB_CACHE", folder.path().string()}});
  const auto snapshots = main.parent_path();
  EXPECT_EQ(find_hub_folder(kId + "@main"), main);
  EXPECT_EQ(find_hub_folder(kId + "@v1.0"), snapshots / "ffff");
  EXPECT_EQ(find_hub_folder(kId + "@refs/pr/3"), snapshots / "eeee");
  EXPECT_EQ(find_hub_folder(kId + "@0123abcd"), main);
  EXPECT_PRED2(contains, message_of<DataError>([] { find_hub_folder(kId + "@v2"); }),
               "Type: hf download org/a.Name_1-b --revision v2");
}

TEST(HubCache, MissingModelIsRefused) {
  const TempFolder folder;
  const auto snapshot = download(folder, "");
  const Variables variables({{"HF_HUB_CACHE", folder.path().string()}});
  const auto refusal = [](const std::string& id) {
    return message_of<DataError>([&] { find_hub_folder(id); });
  };
  EXPECT_PRED2(contains, refusal("other/model"),
               "finding other/model in the Hugging Face cache: there is no folder " +
                   (folder.path() / "models--other--model").string() +
                   ". Expected a model that was downloaded. Type: hf download other/model");
  std::filesystem::remove_all(snapshot);
  EXPECT_PRED2(contains, refusal(kId), "revision main is not in " + folder.path().string());
  folder.write("models--org--a.Name_1-b/refs/main", "../../..");
  EXPECT_PRED2(contains, refusal(kId), "refs/main: it does not name a commit");
  for (const std::string id : {"", "name", "org/name/more", "../name", "org/..", "org/na me",
                               "org/name@", "org/name@../../x", "org/name@a//b"}) {
    EXPECT_PRED2(contains, refusal(id),
                 "finding the model '" + id + "': no such folder, and not an id");
  }
}

TEST(HubCache, IdIsTwoNamesAndNotAPath) {
  for (const std::string id : {"facebook/wav2vec2-base", "a/b", "org/a.Name_1-b@refs/pr/3"})
    EXPECT_TRUE(is_hub_id(id)) << id;
  for (const std::string text : {"", "wav2vec2", "/a/b", "./b", "a/", "/b", "a/b/c", "a/b@", "~/b",
                                 "a/.b", "a/b.", "-a/b", "a/b--c", "a/b..c", "a b/c", "a/b@/c"})
    EXPECT_FALSE(is_hub_id(text)) << text;

  const TempFolder folder;
  folder.write("org/name", "x");
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  EXPECT_FALSE(is_hub_id("org/name"));
  EXPECT_TRUE(is_hub_id("org/other"));
  std::filesystem::current_path(before);
}

TEST(HubCache, RepositoryIsTwoNamesEvenIfThePathExists) {
  for (const std::string name : {"facebook/wav2vec2-base", "a/b", "org/a.Name_1-b"})
    EXPECT_TRUE(is_hub_repository(name)) << name;
  for (const std::string text : {"", "name", "a/b@main", "a/b@", "./b", "a/b/c", "-a/b", "a/b--c"})
    EXPECT_FALSE(is_hub_repository(text)) << text;
  const TempFolder folder;
  folder.write("org/name", "x");
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  EXPECT_TRUE(is_hub_repository("org/name"));
  std::filesystem::current_path(before);
}

TEST(HubCache, RecoversTheIdFromItsFolder) {
  const TempFolder folder;
  const auto snapshot = download(folder, "");
  EXPECT_EQ(hub_id_of(snapshot), kId);
  EXPECT_EQ(hub_id_of("cache/models--facebook--wav2vec2-base/snapshots/0123"),
            "facebook/wav2vec2-base");
  for (const std::string path : {"", "/", "runs/a/best", "models--org--name", "models--a--b/refs/0",
                                 "models--name/snapshots/0123", "datasets--a--b/snapshots/0123"})
    EXPECT_EQ(hub_id_of(path), std::nullopt) << path;
}

}  // namespace
}  // namespace sotto
