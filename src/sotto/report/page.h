// A page of a report as one HTML file: no script, nothing from elsewhere, light or dark as the
// reader prefers, readable on narrow screens and on paper.
//
//   Page page{.title = "Suite techniques", .subtitle = "8 experiments"};
//   page.key_figures = {{.name = "fastest", .value = "bf16", .detail = "2.1x the baseline"}};
//   Section& memory = page.add_section("Memory");
//   memory.add({.title = "Peak", .description = "...", .drawing = draw(bars)});
//   memory.add(table);
//   write_text_synced(path, page.to_html());
#pragma once

#include <deque>
#include <string>
#include <variant>
#include <vector>

#include "sotto/report/data_table.h"
#include "sotto/report/svg.h"

namespace sotto::report {

// In the head of every page: a file with it may be replaced by another page.
inline constexpr const char* kPageMark = "<meta name=\"generator\" content=\"sotto\"/>";

struct KeyFigure {
  std::string name;
  std::string value;
  std::string detail = {};
  // Name for programs that read the page; empty: none.
  std::string key = {};
};

struct Paragraph {
  std::string text;
};

// A list of lines with a title; for warnings.
struct Notice {
  std::string title;
  std::vector<std::string> lines = {};
};

using Block = std::variant<Paragraph, Figure, DataTable, Notice>;

struct Section {
  std::string title;
  // Adjacent figures stand side by side where there is room.
  std::vector<Block> blocks = {};

  void add(Block block) { blocks.push_back(std::move(block)); }
};

struct Page {
  std::string title;
  std::string subtitle = {};
  std::vector<KeyFigure> key_figures = {};
  // References stay valid when sections are added; empty sections are left out.
  std::deque<Section> sections = {};
  // Last line: what wrote the page.
  std::string footer = {};

  Section& add_section(const std::string& section_title);
  std::string to_html() const;
};

}  // namespace sotto::report
