// Opens pages in a browser without a window, as readers see them.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "support/run_command.h"
#include "support/temp_folder.h"

namespace sotto::test {

// Path of Chromium or Chrome; none where there is neither.
inline std::optional<std::string> find_browser() {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    for (const char* name : {"chromium", "chromium-browser", "google-chrome"}) {
      const std::filesystem::path file = std::filesystem::path(folder) / name;
      std::error_code ignored;
      if (std::filesystem::exists(file, ignored)) return file.string();
    }
  }
  return std::nullopt;
}

struct SeenPage {
  int exit_code = 0;
  // The page's elements after it was loaded.
  std::string elements;
  // Lines of the console: errors of scripts, resources that were not found.
  std::vector<std::string> console;
};

// A browser with a profile of its own.
class Browser {
 public:
  explicit Browser(std::string program) : program_(std::move(program)) {}

  // Opens a file in a window of this width, and waits until it is loaded.
  SeenPage open(const std::filesystem::path& file, int width) const {
    const CommandResult result = run({"--dump-dom"}, file, width);
    SeenPage page{.exit_code = result.exit_code, .elements = result.out, .console = {}};
    std::istringstream lines(result.err);
    for (std::string line; std::getline(lines, line);)
      if (line.find(":CONSOLE") != std::string::npos) page.console.push_back(line);
    return page;
  }

  // Returns the bytes of a PDF file of the page as it is printed.
  std::string print(const std::filesystem::path& file) const {
    const std::filesystem::path pdf = profile_.path() / "page.pdf";
    run({"--print-to-pdf=" + pdf.string()}, file, 1000);
    return content_of(pdf);
  }

 private:
  CommandResult run(std::vector<std::string> words, const std::filesystem::path& file,
                    int width) const {
    std::vector<std::string> all = {program_, "--headless",
                                    // Containers and root have no sandbox; the page is our own.
                                    "--no-sandbox", "--disable-gpu", "--no-first-run",
                                    "--disable-background-networking", "--enable-logging=stderr",
                                    "--v=0",
                                    "--user-data-dir=" + (profile_.path() / "profile").string(),
                                    "--window-size=" + std::to_string(width) + ",900"};
    all.insert(all.end(), words.begin(), words.end());
    all.push_back("file://" + std::filesystem::absolute(file).string());
    return run_command(all);
  }

  std::string program_;
  TempFolder profile_;
};

}  // namespace sotto::test
