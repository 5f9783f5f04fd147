// Opener: turns a url into a ByteSource, or into a ByteSink. What a url may name is decided only
// here.
//
//   UrlOpener opener({.allow_pipe = false});
//   auto source = opener.open("shards/train-000000.tar");
//   auto rest = opener.open("https://host/a.tar", {.offset = 1'048'576});
//
// Schemes: a path or file://, http:// and https://, s3://BUCKET/KEY and gs://BUCKET/KEY,
// hf://datasets/OWNER/NAME/PATH, `-` (standard input), `pipe:COMMAND` if allowed, and those of
// user-defined stores. A path may contain any character: `x#1.tar` and `a:b?.tar` are files.
//
// Threads: open() may be called from many threads. All HTTP sources of an opener share one thread,
// its connections and its retry budget, and may outlive the opener.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "io/base/url_text.h"
#include "io/byte_sink.h"
#include "io/byte_source.h"
#include "io/http_options.h"
#include "io/object_store_options.h"

namespace millrace::io {

struct OpenOptions {
  /// Where to start, in bytes from the object's beginning. A pipe reads and drops those before.
  std::uint64_t offset = 0;
  /// Bytes that will be read from `offset` on, or before the next skip(), as far as is known; 0:
  /// all there are. A server is asked for so many at first, and for the rest when it is read, so
  /// that a source that is left or skips early does not cost its connection.
  std::uint64_t expected = 0;
  /// Once requested, reads throw Cancelled.
  std::stop_token stop = {};
};

/// What a store has under a url.
struct ListedObject {
  std::string url = {};
  std::uint64_t bytes = 0;
};

struct ListOptions {
  /// Whether what lies below a further slash is listed object by object, or as one entry whose url
  /// ends in that slash.
  bool recursive = false;
  /// Maximum number of entries.
  std::size_t most = 100'000;
  /// Once requested, list() throws Cancelled.
  std::stop_token stop = {};
};

/// How urls of one scheme are opened. A scheme is added by listing a Store in
/// UrlOpenerOptions::stores; tests/install/user_project/own_store.h is an example.
struct Store {
  /// The part before "://", in lower case: "az".
  std::string scheme;
  /// Opens an object, honouring offset and stop; the contract is Opener::open()'s. Called from many
  /// threads.
  std::function<std::unique_ptr<ByteSource>(const std::string& url, const OpenOptions& options)>
      open;
  /// Creates an object; the contract is Opener::open_sink()'s. Empty if the store is read-only.
  std::function<std::unique_ptr<ByteSink>(const std::string& url, const FileSinkOptions& options,
                                          const std::stop_token& stop)>
      create = {};
  /// Lists objects; the contract is Opener::list()'s. Empty if the store cannot.
  std::function<std::vector<ListedObject>(const std::string& prefix, const ListOptions& options)>
      list = {};
  /// Removes an object; the contract is Opener::remove()'s. Empty if the store cannot.
  std::function<void(const std::string& url, const std::stop_token& stop)> remove = {};
};

class Opener {
 public:
  virtual ~Opener() = default;
  /// A source positioned at `options.offset`; it may outlive the opener. Throws: NotFound, Io,
  /// Truncated (an offset past the end), InvalidArgument (an unknown or forbidden scheme, a
  /// malformed url). Network faults are thrown by the first read(): open() sends the request only.
  virtual std::unique_ptr<ByteSource> open(const std::string& url,
                                           const OpenOptions& options = {}) const = 0;

  /// Whether list() knows the scheme of `url`. Opens nothing. Default: no.
  virtual bool can_list(const std::string& url) const;
  /// All objects of a store whose urls begin with `prefix` ("s3://bucket/train-"), sorted by url.
  /// Throws: InvalidArgument (the store cannot list, a malformed url), Exhausted (there are more
  /// than `options.most`), NotFound, Io, Corrupt, Cancelled.
  virtual std::vector<ListedObject> list(const std::string& prefix,
                                         const ListOptions& options = {}) const;

  /// Creates the object at `url`, which appears whole or not at all: a file by open_file_sink(), an
  /// object of a store by an upload that finish() completes and `stop` cancels. Throws:
  /// InvalidArgument (an unknown or read-only scheme; an object that exists and may not be
  /// replaced), and as open_file_sink(); write() and finish() also Cancelled. Default: nothing can
  /// be written.
  virtual std::unique_ptr<ByteSink> open_sink(const std::string& url,
                                              const FileSinkOptions& options = {},
                                              const std::stop_token& stop = {}) const;
  /// Removes the object at `url`, which need not be there. Throws: InvalidArgument (nothing can be
  /// removed there), NotFound (it is not allowed), Io, Cancelled. Default: nothing can be removed.
  virtual void remove(const std::string& url, const std::stop_token& stop = {}) const;
  /// Tells an opener that keeps objects (CachingOpener) which SHA-256, in lower-case hex, the
  /// object at `url` has: what differs is not kept. Default: does nothing.
  virtual void expect_digest(const std::string& url, const std::string& sha256) const;
};

struct UrlOpenerOptions {
  HttpOptions http = {};
  ObjectStoreOptions object_stores = ObjectStoreOptions::from_environment();
  /// For whatever is opened without a stop of its own, so that a program's stop reaches every wait.
  std::stop_token stop = {};
  /// Whether `pipe:COMMAND` may run a shell. Only the user may switch it on, never data.
  bool allow_pipe = false;
  /// User-defined stores; one overrides a built-in store of the same scheme.
  std::vector<Store> stores = {};
};

class UrlOpener final : public Opener {
 public:
  explicit UrlOpener(UrlOpenerOptions options = {});
  ~UrlOpener() override;
  std::unique_ptr<ByteSource> open(const std::string& url,
                                   const OpenOptions& options = {}) const override;
  bool can_list(const std::string& url) const override;
  std::vector<ListedObject> list(const std::string& prefix,
                                 const ListOptions& options = {}) const override;

  /// http(s)://: one PUT; where nothing may be replaced, the server is asked for the object before,
  /// but a plain one has no lock: another's that comes meanwhile is replaced. remove() is one
  /// DELETE. s3:// and gs://: in parts, from at most 64 MiB of buffers.
  std::unique_ptr<ByteSink> open_sink(const std::string& url, const FileSinkOptions& options = {},
                                      const std::stop_token& stop = {}) const override;
  void remove(const std::string& url, const std::stop_token& stop = {}) const override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Reads a whole small object: a manifest, an index. Throws: Exhausted if it is larger than
/// `limit_bytes`, and as open() and read().
Bytes read_object(const Opener& opener, const std::string& url, std::size_t limit_bytes,
                  const std::stop_token& stop = {});

}  // namespace millrace::io
