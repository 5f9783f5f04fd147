// ByteSource's conformance suite, for every source of this room and for their test
// double.
#include "io/byte_source.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <thread>

#include "io/cache.h"
#include "io/opener.h"
#include "tests/support/byte_source_conformance.h"
#include "tests/support/faulty_source.h"
#include "tests/support/nginx.h"
#include "tests/support/scripted_http_server.h"
#include "tests/support/temp_dir.h"

namespace millrace::testing {
namespace {

using io::ByteSource;
using io::OpenOptions;
using io::UrlOpener;

class LocalFile final : public SourceObject {
 public:
  LocalFile(std::string prefix, const std::string& content) : prefix_(std::move(prefix)) {
    write_file(dir_ / "a#1?.tar", content);
  }
  std::unique_ptr<ByteSource> open(const OpenOptions& options) override {
    const std::string name = prefix_.empty() ? "a#1?.tar" : "a%231%3F.tar";
    return opener_.open(prefix_ + (dir_ / name), options);
  }
  std::unique_ptr<ByteSource> open_missing() override {
    return opener_.open(prefix_ + (dir_ / "b.tar"));
  }

 private:
  std::string prefix_;
  TempDir dir_;
  UrlOpener opener_;
};

class NginxFile final : public SourceObject {
 public:
  NginxFile(const std::string& content, const NginxOptions& options, io::HttpOptions http = {})
      : server_((write_file(dir_ / "a.tar", content), dir_.path()), options),
        opener_({.http = with_ca(std::move(http), options)}) {}
  std::unique_ptr<ByteSource> open(const OpenOptions& options) override {
    return opener_.open(server_.url("a.tar"), options);
  }
  std::unique_ptr<ByteSource> open_missing() override { return opener_.open(server_.url("b.tar")); }

 private:
  io::HttpOptions with_ca(io::HttpOptions http, const NginxOptions& options) const {
    if (options.tls) http.ca_file = server_.ca_file();
    return http;
  }

  TempDir dir_;
  Nginx server_;
  UrlOpener opener_;
};

// Through a cache; the whole object is in it, or nothing.
class CachedFile final : public SourceObject {
 public:
  CachedFile(const std::string& content, bool kept)
      : server_((write_file(dir_ / "a.tar", content), dir_.path())) {
    if (!kept) return;
    const io::CachingOpener opener(std::make_shared<UrlOpener>(), {.folder = cache_ / "kept"});
    io::read_all(*opener.open(server_.url("a.tar")), std::size_t{1} << 30U);
  }
  std::unique_ptr<ByteSource> open(const OpenOptions& options) override {
    return opener_.open(server_.url("a.tar"), options);
  }
  std::unique_ptr<ByteSource> open_missing() override { return opener_.open(server_.url("b.tar")); }

 private:
  TempDir dir_;
  TempDir cache_;
  Nginx server_;
  io::CachingOpener opener_{std::make_shared<UrlOpener>(), {.folder = cache_ / "kept"}};
};

class ServerWithoutRanges final : public SourceObject {
 public:
  explicit ServerWithoutRanges(const std::string& content)
      : server_([content](const ScriptedRequest& request) -> ScriptedReply {
          const bool there = request.target.starts_with("/a.tar");
          return {there ? http_reply(200, "", content) : http_reply(404, "", "no")};
        }) {}
  std::unique_ptr<ByteSource> open(const OpenOptions& options) override {
    return opener_.open(server_.url("/a.tar?secret"), options);
  }
  std::unique_ptr<ByteSource> open_missing() override {
    return opener_.open(server_.url("/b.tar"));
  }

 private:
  ScriptedHttpServer server_;
  UrlOpener opener_;
};

class Command final : public SourceObject {
 public:
  explicit Command(const std::string& content) { write_file(dir_ / "a", content); }
  std::unique_ptr<ByteSource> open(const OpenOptions& options) override {
    return opener_.open("pipe:cat '" + (dir_ / "a") + "'", options);
  }

 private:
  TempDir dir_;
  UrlOpener opener_{{.allow_pipe = true}};
};

class Fifo final : public SourceObject {
 public:
  explicit Fifo(std::string content) : content_(std::move(content)) {
    EXPECT_EQ(::mkfifo((dir_ / "fifo").c_str(), 0600), 0);
  }
  ~Fifo() override { unblock(); }
  std::unique_ptr<ByteSource> open(const OpenOptions& options) override {
    unblock();
    auto source = opener_.open(dir_ / "fifo", options);
    writer_ = std::thread([this] { write_content(); });
    return source;
  }
  bool repeats() const override { return false; }

 private:
  void write_content() {
    sigset_t broken_pipe;
    ::sigemptyset(&broken_pipe);
    ::sigaddset(&broken_pipe, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &broken_pipe, nullptr);  // a reader may close early
    std::string_view rest = content_;
    const int fd = ::open((dir_ / "fifo").c_str(), O_WRONLY);
    while (!rest.empty()) {
      const ssize_t wrote = ::write(fd, rest.data(), rest.size());
      if (wrote <= 0) break;
      rest.remove_prefix(static_cast<std::size_t>(wrote));
    }
    ::close(fd);
  }
  // The writer blocks until a reader opens the FIFO: be one, briefly.
  void unblock() {
    if (!writer_.joinable()) return;
    const int fd = ::open((dir_ / "fifo").c_str(), O_RDONLY | O_NONBLOCK);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ::close(fd);
    writer_.join();
  }

  TempDir dir_;
  std::string content_;
  UrlOpener opener_;
  std::thread writer_;
};

class StandardInput final : public SourceObject {
 public:
  explicit StandardInput(const std::string& content) : saved_(::dup(0)) {
    write_file(dir_ / "a", content);
  }
  ~StandardInput() override {
    ::dup2(saved_, 0);
    ::close(saved_);
  }
  std::unique_ptr<ByteSource> open(const OpenOptions& options) override {
    const int fd = ::open((dir_ / "a").c_str(), O_RDONLY);
    ::dup2(fd, 0);
    ::close(fd);
    return opener_.open("-", options);
  }
  bool repeats() const override { return false; }

 private:
  TempDir dir_;
  int saved_;
  UrlOpener opener_;
};

template <typename T, typename... Arguments>
auto maker(Arguments... arguments) {
  return [=](const std::string& content) -> std::unique_ptr<SourceObject> {
    if constexpr (sizeof...(Arguments) == 0) {
      return std::make_unique<T>(content);
    } else {
      return std::make_unique<T>(arguments..., content);
    }
  };
}

SourceKind nginx(std::string name, const NginxOptions& options, const io::HttpOptions& http = {}) {
  return {std::move(name),
          [=](const std::string& content) -> std::unique_ptr<SourceObject> {
            return std::make_unique<NginxFile>(content, options, http);
          },
          &Nginx::missing};
}

SourceKind cached(const char* name, bool kept) {
  return {name,
          [kept](const std::string& content) -> std::unique_ptr<SourceObject> {
            return std::make_unique<CachedFile>(content, kept);
          },
          &Nginx::missing};
}

std::unique_ptr<SourceObject> faulty_object(const std::string& content) {
  auto opener = std::make_shared<FaultyOpener>();
  opener->add("a.tar", content);
  return std::make_unique<OpenerObject<FaultyOpener>>(std::move(opener), "a.tar");
}

INSTANTIATE_TEST_SUITE_P(
    All, ByteSourceConformance,
    ::testing::Values(SourceKind{"Path", maker<LocalFile>(std::string())},
                      SourceKind{"FileUrl", maker<LocalFile>(std::string("file://"))},
                      nginx("Nginx", {}), nginx("NginxTls", {.tls = true}),
                      nginx("NginxInParts", {}, {.buffer_bytes = 65'536, .far_round_trip = {}}),
                      nginx("NginxWithoutRanges", {.location_lines = "max_ranges 0;"}),
                      cached("NotYetCached", false), cached("Cached", true),
                      SourceKind{"ServerWithoutRanges", maker<ServerWithoutRanges>()},
                      SourceKind{"Pipe", maker<Command>()}, SourceKind{"Fifo", maker<Fifo>()},
                      SourceKind{"StandardInput", maker<StandardInput>()},
                      SourceKind{"FaultyOpener", faulty_object}),
    [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace millrace::testing
