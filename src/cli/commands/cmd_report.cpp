// `sotto report`: shows what runs have recorded, as a page, as tables and for programs.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands/command_line.h"
#include "cli/commands/commands.h"
#include "cli/views/console.h"
#include "cli/views/json_text.h"
#include "cli/views/page_file.h"
#include "sotto/core/error.h"
#include "sotto/core/files/atomic_folder.h"
#include "sotto/report/run_figures.h"
#include "sotto/report/run_page.h"
#include "sotto/report/run_reader.h"
#include "sotto/report/run_tables.h"

namespace sotto::cli {

namespace {

namespace fs = std::filesystem;
using report::RunContent;

struct ReportOptions {
  std::vector<std::string> runs;
  std::string out;
  std::string csv;
  std::string markdown;
  std::string svg;
  bool json = false;
};

// First line of Markdown files, by which a file of this command is recognised.
constexpr const char* kMarkdownMark = "<!-- sotto report -->\n";
constexpr const char* kCsvMark = "run,state,";
constexpr const char* kSvgMark = "<svg xmlns";

// Rows of a table in the terminal.
constexpr std::ptrdiff_t kMostRows = 20;

// A folder that is named twice would be compared with itself.
void check_distinct(const std::vector<std::string>& folders) {
  for (size_t i = 0; i < folders.size(); ++i) {
    for (size_t j = i + 1; j < folders.size(); ++j) {
      std::error_code ignored;
      if (folders[i] != folders[j] && !fs::equivalent(folders[i], folders[j], ignored)) continue;
      throw ConfigError({.attempted = "comparing runs",
                         .found = fmt::format("{} twice", folders[i]),
                         .expected = "different folders"});
    }
  }
}

// The path of the page; empty: none is written.
fs::path page_path(const ReportOptions& options) {
  if (!options.out.empty()) return options.out;
  if (options.runs.size() == 1) return fs::path(options.runs.front()) / "report.html";
  return {};
}

void write_svgs(const fs::path& folder, const std::vector<RunContent>& runs) {
  for (const report::Figure& figure :
       runs.size() == 1 ? report::figures_of(runs.front()) : report::comparison_figures(runs))
    write_output(folder / (figure.name + ".svg"), report::svg_file(figure), kSvgMark);
}

void write_files(const ReportOptions& options, const std::vector<RunContent>& runs) {
  if (const fs::path page = page_path(options); !page.empty())
    write_page(page,
               runs.size() == 1 ? report::run_page(runs.front()) : report::comparison_page(runs));
  if (!options.csv.empty())
    write_output(options.csv, report::csv_text(report::comparison_table(runs)), kCsvMark);
  if (!options.markdown.empty())
    write_output(options.markdown, kMarkdownMark + report::runs_markdown(runs), kMarkdownMark);
  if (!options.svg.empty()) write_svgs(options.svg, runs);
}

// Long tables are for files and the page; the terminal shows the last rows.
std::string section_text(report::DataTable table) {
  const size_t num_rows = table.rows.size();
  if (std::ssize(table.rows) > kMostRows) {
    table.rows.erase(table.rows.begin(), table.rows.end() - kMostRows);
    table.note = fmt::format("The last {} of {}; the page has all.", kMostRows, num_rows);
  }
  const std::string note = table.note.empty() ? "" : table.note + "\n";
  return fmt::format("{}\n{}{}\n", table.title, report::terminal_text(table), note);
}

std::string tables_text(const std::vector<RunContent>& runs) {
  const std::vector<report::DataTable> tables =
      runs.size() == 1 ? report::tables_of(runs.front(), /*has_settings=*/false)
                       : report::comparison_tables(runs);
  std::string text;
  for (const report::DataTable& table : tables)
    if (!table.is_empty()) text += section_text(table);
  return text;
}

std::string files_text(const ReportOptions& options) {
  std::string text;
  const fs::path page = page_path(options);
  for (const std::string& path : {page.string(), options.csv, options.markdown, options.svg})
    if (!path.empty()) text += fmt::format("{}{}", text.empty() ? "" : ", ", path);
  if (text.empty()) return "For a page: --out report.html\n";
  return fmt::format("Report: {}\n", text);
}

void run_report(const ReportOptions& options) {
  check_distinct(options.runs);
  std::vector<RunContent> runs;
  for (const std::string& folder : options.runs) {
    runs.push_back(report::read_run(folder));
    for (const std::string& problem : runs.back().problems)
      print_error(fmt::format("left out of {}: {}\n", folder, problem));
  }
  write_files(options, runs);
  std::cout << (options.json ? json_text(report::runs_json(runs))
                             : tables_text(runs) + files_text(options));
}

}  // namespace

void add_report(CLI::App& app, const GlobalOptions&) {
  CLI::App* command =
      app.add_subcommand("report", "Show what runs have recorded: a page with charts, and tables");
  auto options = std::make_shared<ReportOptions>();
  command->add_option("runs", options->runs, "Folder of a run; several are compared")->required();
  command->add_option("--out", options->out,
                      "HTML page to write (RUN/report.html; none for several runs)");
  command->add_option("--csv", options->csv, "CSV file to write, one row per run");
  command->add_option("--md", options->markdown, "Markdown file to write, with all tables");
  command->add_option("--svg", options->svg, "Folder to write each chart to, as an SVG file");
  command->add_flag("--json", options->json, "Print all tables as JSON, with exact values");
  command->footer(
      example("  sotto report runs/tiny-1\n"
              "  sotto report runs/tiny-1 runs/tiny-2 --out comparison.html",
              "runs of sotto train"));
  command->callback([options] { run_report(*options); });
}

}  // namespace sotto::cli
