// A file server on this machine, for tests of what fetches: python3 runs it. It answers ranges, but
// for files whose names begin with "noranges", and remembers those it was asked for.
#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/temp_folder.h"

namespace sotto::test {

class LocalServer {
 public:
  explicit LocalServer(const std::filesystem::path& served) {
    const std::filesystem::path script = folder_.write("serve.py", kScript);
    const std::vector<std::string> words = {"python3", script.string(), served.string(),
                                            (folder_.path() / "port").string(),
                                            (folder_.path() / "ranges").string()};
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    if (posix_spawnp(&child_, "python3", nullptr, nullptr, arguments.data(), environ) != 0)
      throw std::runtime_error("python3 could not be started");
    for (int i = 0; i < 500 && !std::filesystem::exists(folder_.path() / "port"); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    address_ = "http://127.0.0.1:" + content_of(folder_.path() / "port") + "/";
  }
  ~LocalServer() {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  LocalServer(const LocalServer&) = delete;
  LocalServer& operator=(const LocalServer&) = delete;

  // With a slash at its end.
  const std::string& address() const { return address_; }

  // The ranges that were asked for, in their order.
  std::vector<std::string> ranges() const {
    std::vector<std::string> found;
    std::ifstream file(folder_.path() / "ranges");
    for (std::string line; std::getline(file, line);) found.push_back(line);
    return found;
  }

 private:
  static constexpr const char* kScript = R"(
import http.server, os, sys
served, port, ranges = sys.argv[1:]
class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *unused):
        pass
    def do_GET(self):
        path = os.path.join(served, self.path.lstrip("/"))
        if not os.path.isfile(path):
            return self.send_error(404)
        data = open(path, "rb").read()
        asked = self.headers.get("Range")
        start = 0
        if asked and not os.path.basename(path).startswith("noranges"):
            with open(ranges, "a") as file:
                file.write(asked + "\n")
            start = int(asked.removeprefix("bytes=").split("-")[0])
            if start >= len(data):
                return self.send_error(416)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        self.wfile.write(data[start:])
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
with open(port + ".new", "w") as file:
    file.write(str(server.server_port))
os.rename(port + ".new", port)
server.serve_forever()
)";

  TempFolder folder_;
  pid_t child_ = 0;
  std::string address_;
};

}  // namespace sotto::test
