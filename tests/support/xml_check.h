// Whether a text is well-formed XML, for the SVG and HTML that reports write: elements nest, have
// quoted attributes without repetition, and every & begins an entity. Knows neither CDATA nor
// processing instructions, which those do not have.
#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

namespace sotto::test {

class XmlCheck {
 public:
  // The first problem with its offset; empty: the text is well-formed.
  static std::string problem_of(std::string_view text) { return XmlCheck(text).run(); }

 private:
  explicit XmlCheck(std::string_view text) : text_(text) {}

  std::string run() {
    if (text_.substr(0, 9) == "<!DOCTYPE") at_ = text_.find('>') + 1;
    while (at_ < text_.size() && problem_.empty()) {
      if (text_.substr(at_, 4) == "<!--") {
        skip_comment();
      } else if (text_.substr(at_, 2) == "</") {
        end_element();
      } else if (text_[at_] == '<') {
        begin_element();
      } else {
        read_text('<', open_.empty());
      }
    }
    if (problem_.empty() && !open_.empty()) fail("no end of " + open_.back());
    if (problem_.empty() && num_roots_ != 1) fail(std::to_string(num_roots_) + " roots");
    return problem_;
  }

  void fail(const std::string& what) {
    problem_ = what + " at " + std::to_string(at_) + ": " +
               std::string(text_.substr(std::min(at_, text_.size()), 60));
  }

  void skip_comment() {
    const size_t end = text_.find("-->", at_);
    if (end == std::string_view::npos) return fail("an endless comment");
    at_ = end + 3;
  }

  std::string name() {
    const size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 ||
                                  text_[at_] == '-' || text_[at_] == ':' || text_[at_] == '_'))
      ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }

  // Reads up to `end`, which is not read.
  void read_text(char end, bool is_outside) {
    for (; at_ < text_.size() && text_[at_] != end; ++at_) {
      if (text_[at_] == '<') return fail("< in a text");
      if (text_[at_] == '&') check_entity();
      if (is_outside && std::isspace(static_cast<unsigned char>(text_[at_])) == 0)
        return fail("text outside of the root");
    }
  }

  void check_entity() {
    for (const std::string_view entity : {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"})
      if (text_.substr(at_, entity.size()) == entity) return;
    fail("an unknown entity");
  }

  void begin_element() {
    ++at_;
    const std::string element = name();
    if (element.empty()) return fail("an element without a name");
    if (open_.empty()) ++num_roots_;
    std::vector<std::string> attributes;
    for (skip_space(); at_ < text_.size() && text_[at_] != '>' && text_[at_] != '/'; skip_space()) {
      const std::string attribute = name();
      if (attribute.empty()) return fail("an attribute without a name");
      if (std::ranges::find(attributes, attribute) != attributes.end())
        return fail("a repeated attribute");
      attributes.push_back(attribute);
      if (text_.substr(at_, 2) != "=\"") return fail("an attribute without a value");
      at_ += 2;
      read_text('"', false);
      if (!problem_.empty()) return;
      ++at_;
    }
    const bool is_empty = at_ < text_.size() && text_[at_] == '/';
    at_ += is_empty ? 1 : 0;
    if (at_ >= text_.size() || text_[at_] != '>') return fail("an endless element");
    ++at_;
    if (!is_empty) open_.push_back(element);
  }

  void end_element() {
    at_ += 2;
    const std::string element = name();
    if (open_.empty() || open_.back() != element) return fail("an end of " + element);
    open_.pop_back();
    if (at_ >= text_.size() || text_[at_] != '>') return fail("an endless end");
    ++at_;
  }

  std::string_view text_;
  size_t at_ = 0;
  std::vector<std::string> open_;
  int num_roots_ = 0;
  std::string problem_;
};

}  // namespace sotto::test
