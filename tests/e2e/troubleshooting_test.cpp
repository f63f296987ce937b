// docs/troubleshooting.md: its commands are run, and its messages must be those that come.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <sstream>

#include "console_blocks.h"
#include "sotto/core/build_info.h"
#include "support/run_command.h"
#include "support/temp_folder.h"
#include "support/thrown.h"
#include "support/tiny_corpus.h"

namespace sotto::test {
namespace {

namespace fs = std::filesystem;

const fs::path kSource = SOTTO_SOURCE;
const fs::path kPage = kSource / "docs" / "troubleshooting.md";

// What every section finds in its folder.
void write_section_files(const TempFolder& folder) {
  write_tiny_corpus(folder.path(), "train", 48, 1);
  write_tiny_corpus(folder.path(), "dev", 12, 2);
  folder.write("tiny.yaml",
               "name: tiny\n"
               "memory: 100MiB\n"
               "data: {train: train.jsonl, dev: dev.jsonl}\n"
               "model: {preset: tiny, layers: 2, width: 32, heads: 2, hidden: 64}\n"
               "optimizer: {schedule: {kind: constant, rate: 0.003}}\n"
               "effective_batch: 8\n"
               "epochs: 3\n"
               "checkpoint_every: 2\n"
               "keep_checkpoints: 3\n");
}

CommandResult run_in(const fs::path& folder, const DocBlock& block, const std::string& command) {
  const fs::path binary = std::getenv("SOTTO_BINARY");
  std::string script = "cd '" + folder.string() + "' || exit 99\nexec 2>&1\n";
  script += "PATH='" + binary.parent_path().string() + "':$PATH\n";
  return run_command({"bash", "-c", script + block.before + "\n" + command});
}

bool is_left_out(const DocBlock& block) {
  return block.needs == "audio" && !build_info().audio.starts_with("libsndfile");
}

TEST(Troubleshooting, CommandsPrintWhatThePageSays) {
  std::map<std::string, std::unique_ptr<TempFolder>> folders;
  int64_t num_commands = 0;
  for (const DocBlock& block : read_blocks(kPage)) {
    if (is_left_out(block)) continue;
    std::unique_ptr<TempFolder>& folder = folders[block.section];
    if (!folder) {
      folder = std::make_unique<TempFolder>();
      write_section_files(*folder);
    }
    for (const ConsoleCommand& command : block.commands) {
      ++num_commands;
      const CommandResult result = run_in(folder->path(), block, command.text);
      const std::string index = "docs/troubleshooting.md:" + std::to_string(command.line);
      EXPECT_EQ(result.exit_code, command.exit_code) << index << '\n' << result.out;
      const std::optional<std::string> missing = find_missing(command.expected, result.out);
      EXPECT_EQ(missing, std::nullopt) << index << " said:\n" << result.out;
    }
  }
  EXPECT_GE(num_commands, 35);
}

TEST(Troubleshooting, MessagesThatCannotBeTriggeredAreInTheSource) {
  int64_t num_messages = 0;
  for (const DocBlock& block : read_blocks(kPage)) {
    for (const std::string& message : block.messages) {
      ++num_messages;
      EXPECT_EQ(find_unsaid(message, kSource / block.source), std::nullopt)
          << "docs/troubleshooting.md:" << block.line << ", of " << block.source;
    }
  }
  EXPECT_GE(num_messages, 10);
}

// The text of each section under its heading; what stands before the first has none.
std::map<std::string, std::string> sections_of(const std::string& page) {
  std::map<std::string, std::string> sections;
  std::string heading;
  std::istringstream stream(page);
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with("## ")) heading = line.substr(3);
    sections[heading] += line + "\n";
  }
  return sections;
}

// Every entry of the table at the top links to the section with its message, and every section is
// linked.
TEST(Troubleshooting, TableLinksToEverySection) {
  const std::map<std::string, std::string> sections = sections_of(content_of(kPage));
  const std::regex row(R"(\| (`.*`) \| \[(.*)\]\(#.*\) \|)");
  std::set<std::string> found;
  std::istringstream table(sections.at(""));
  for (std::string line; std::getline(table, line);) {
    std::smatch parts;
    if (!std::regex_match(line, parts, row)) continue;
    ASSERT_TRUE(sections.contains(parts[2])) << line;
    found.insert(parts[2]);
    const std::string phrases = parts[1];
    const std::regex phrase("`([^`]*)`");
    for (std::sregex_iterator one(phrases.begin(), phrases.end(), phrase), end; one != end; ++one)
      EXPECT_PRED2(contains, sections.at(parts[2]), (*one)[1].str());
  }
  EXPECT_EQ(found.size() + 1, sections.size());
}

TEST(ConsoleBlocks, AreReadWithTheirExpectations) {
  const TempFolder folder;
  const fs::path page = folder.write("page.md",
                                     "## One\n```sh\n$ not run\n```\n<!-- before: x=1 -->\n"
                                     "```console\n$ first\nout ...\n(exit code 2)\n$ second\n```\n"
                                     "## Two\n<!-- source: a.cpp -->\n```text\nsotto: m\n```\n");
  const std::vector<DocBlock> blocks = read_blocks(page);
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_EQ(blocks[0].section, "One");
  EXPECT_EQ(blocks[0].before, "x=1");
  ASSERT_EQ(blocks[0].commands.size(), 2u);
  EXPECT_EQ(blocks[0].commands[0].text, "first");
  EXPECT_EQ(blocks[0].commands[0].exit_code, 2);
  EXPECT_EQ(blocks[0].commands[0].expected, (std::vector<std::string>{"out ..."}));
  EXPECT_EQ(blocks[0].commands[1].exit_code, 0);
  EXPECT_EQ(blocks[1].source, "a.cpp");
  EXPECT_EQ(blocks[1].messages, (std::vector<std::string>{"sotto: m"}));
  for (const char* broken : {"```console\nout\n```\n", "```console\n```\n", "```console\n$ a\n",
                             "<!-- before: x -->\n```sh\na\n```\n"})
    EXPECT_THROW(read_blocks(folder.write("page.md", broken)), std::runtime_error) << broken;
}

TEST(ConsoleBlocks, MatchWholeLinesInOrder) {
  EXPECT_TRUE(matches("a b", "a b"));
  EXPECT_FALSE(matches("a b", "a b c"));
  EXPECT_TRUE(matches("a ... c", "a b c"));
  EXPECT_TRUE(matches("...b...", "a b c"));
  EXPECT_FALSE(matches("a ... c", "x a b c"));
  EXPECT_FALSE(matches("a ... c", "a b c d"));
  EXPECT_FALSE(matches("ab...ba", "aba"));
  EXPECT_EQ(find_missing({"a", "c"}, "a\nb\nc\n"), std::nullopt);
  EXPECT_EQ(find_missing({"c", "a"}, "a\nb\nc\n"), "a");
  EXPECT_EQ(find_missing({"d"}, ""), "d");
}

TEST(ConsoleBlocks, FindTextSplitAcrossStrings) {
  const TempFolder folder;
  const fs::path source = folder.write("a.cpp", "f(\"using a \"\n    \"GPU\", \"no {} here\");");
  EXPECT_EQ(find_unsaid("sotto: using a GPU: no ... here.", source), std::nullopt);
  EXPECT_EQ(find_unsaid("sotto: using a TPU: no ... here.", source), "using a TPU");
  EXPECT_EQ(find_unsaid("sotto: using a GPU: no ... there.", source), "there");
}

}  // namespace
}  // namespace sotto::test
