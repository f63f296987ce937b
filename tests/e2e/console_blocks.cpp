#include "console_blocks.h"

#include <fstream>
#include <regex>
#include <sstream>
#include <stdexcept>

#include "support/temp_folder.h"

namespace sotto::test {

namespace {

constexpr std::string_view kAnything = "...";

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> split(const std::string& text, std::string_view mark) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end = text.find(mark); end != std::string::npos; end = text.find(mark, begin)) {
    parts.push_back(text.substr(begin, end - begin));
    begin = end + mark.size();
  }
  parts.push_back(text.substr(begin));
  return parts;
}

// Goes through a page line by line.
class PageReader {
 public:
  explicit PageReader(std::string name) : name_(std::move(name)) {}

  void take(const std::string& line) {
    ++line_;
    if (is_in_block_) {
      take_inside(line);
    } else if (line.starts_with("```")) {
      begin_block(line.substr(3));
    } else if (line.starts_with("## ")) {
      section_ = line.substr(3);
    } else if (std::smatch found; std::regex_match(line, found, comment_)) {
      (found[1] == "before"  ? next_.before
       : found[1] == "needs" ? next_.needs
                             : next_.source) = found[2];
    }
  }

  std::vector<DocBlock> finish() {
    if (is_in_block_) refuse("a block that does not end");
    return std::move(blocks_);
  }

 private:
  [[noreturn]] void refuse(const std::string& found) const {
    throw std::runtime_error(name_ + ":" + std::to_string(line_) + ": " + found);
  }

  void begin_block(const std::string& kind) {
    is_in_block_ = true;
    is_console_ = kind == "console";
    is_taken_ = is_console_ || (kind == "text" && !next_.source.empty());
    if (!is_taken_ && !(next_.before + next_.needs + next_.source).empty())
      refuse("a comment above a block that is not run");
    next_.section = section_;
    next_.line = line_;
  }

  void take_inside(const std::string& line) {
    if (line == "```") {
      if (is_taken_ && next_.commands.empty() && next_.messages.empty()) refuse("an empty block");
      if (is_taken_) blocks_.push_back(std::move(next_));
      next_ = {};
      is_in_block_ = false;
    } else if (is_taken_ && !is_console_) {
      next_.messages.push_back(line);
    } else if (is_taken_) {
      take_console(line);
    }
  }

  void take_console(const std::string& line) {
    if (line.starts_with("$ ")) {
      next_.commands.push_back({.text = line.substr(2), .line = line_});
      return;
    }
    if (next_.commands.empty()) refuse("a console block that does not begin with a command");
    ConsoleCommand& command = next_.commands.back();
    if (std::smatch found; std::regex_match(line, found, exit_code_)) {
      command.exit_code = std::stoi(found[1]);
    } else {
      command.expected.push_back(line);
    }
  }

  const std::regex comment_{R"(<!-- (before|needs|source): (.*) -->)"};
  const std::regex exit_code_{R"(\(exit code (\d+)\))"};
  std::string name_;
  int64_t line_ = 0;
  std::string section_;
  bool is_in_block_ = false;
  bool is_console_ = false;
  bool is_taken_ = false;
  DocBlock next_;
  std::vector<DocBlock> blocks_;
};

}  // namespace

std::vector<DocBlock> read_blocks(const std::filesystem::path& page) {
  PageReader reader(page.filename().string());
  for (const std::string& line : lines_of(content_of(page))) reader.take(line);
  return reader.finish();
}

bool matches(std::string_view expected, std::string_view line) {
  const std::vector<std::string> parts = split(std::string(expected), kAnything);
  if (parts.size() == 1) return line == expected;
  if (!line.starts_with(parts.front())) return false;
  size_t at = parts.front().size();
  for (size_t i = 1; i + 1 < parts.size(); ++i) {
    at = line.find(parts[i], at);
    if (at == std::string_view::npos) return false;
    at += parts[i].size();
  }
  return line.size() >= at + parts.back().size() && line.ends_with(parts.back());
}

std::optional<std::string> find_missing(const std::vector<std::string>& expected,
                                        const std::string& output) {
  size_t next = 0;
  for (const std::string& line : lines_of(output)) {
    if (next < expected.size() && matches(expected[next], line)) ++next;
  }
  return next < expected.size() ? std::optional(expected[next]) : std::nullopt;
}

std::optional<std::string> find_unsaid(const std::string& message,
                                       const std::filesystem::path& source) {
  // Strings that stand behind each other are one.
  const std::string said =
      std::regex_replace(content_of(source), std::regex("\"\\s*\\n\\s*\""), "");
  const std::regex between(R"(\.\.\.|^\w+: |: |\. Expected |\. |\.$)");
  std::sregex_token_iterator part(message.begin(), message.end(), between, -1);
  for (; part != std::sregex_token_iterator(); ++part) {
    std::string words = *part;
    words.erase(0, words.find_first_not_of(" ,"));
    words.erase(words.find_last_not_of(" ,") + 1);
    if (said.find(words) == std::string::npos) return words;
  }
  return std::nullopt;
}

}  // namespace sotto::test
