// wds/shard_writer.h, and the encoders of its pictures, as millrace/shard_writer.py uses them.
#include "wds/shard_writer.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "decode/encode.h"
#include "io/base/error.h"
#include "io/opener.h"
#include "python/bind.h"
#include "wds/manifest.h"
#include "wds/set_file.h"
#include "wds/shard_name.h"

namespace millrace::python {
namespace {

namespace nb = nanobind;

/// What a writer has completed.
struct Shard : wds::ShardSummary {};

class Writer {
 public:
  using Fields = std::vector<std::pair<std::string, nb::bytes>>;

  Writer(const std::string& pattern, std::uint64_t max_samples, std::uint64_t max_bytes,
         std::uint64_t start_shard, std::int64_t mtime, bool index, bool replace)
      : opener_(std::make_unique<const io::UrlOpener>()),
        manifest_(wds::set_file(wds::shard_name(pattern, start_shard), "manifest.json")),
        is_indexed_(index),
        replaces_(replace) {
    const nb::gil_scoped_release others_run;
    writer_ = std::make_unique<wds::ShardWriter>(
        wds::ShardWriterOptions{.pattern = pattern,
                                .maxcount = max_samples,
                                .maxsize = max_bytes,
                                .start_shard = start_shard,
                                .mtime = mtime,
                                .replace = replace ? io::Replace::kAtomically : io::Replace::kNever,
                                .index = index,
                                .opener = opener_.get()});
  }

  ~Writer() { abandon(); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  void write(std::string key, const Fields& fields) {
    check_open();
    wds::WriterSample sample{.key = std::move(key), .fields = {}};
    for (const auto& [suffix, data] : fields)
      sample.fields.push_back(
          {.suffix = suffix,
           .data = io::Bytes::copy_of(std::string_view(data.c_str(), data.size()))});
    const nb::gil_scoped_release others_run;
    writer_->write(sample);
  }

  std::vector<Shard> finish() {
    check_open();
    const nb::gil_scoped_release others_run;
    const auto writer = std::move(writer_);
    std::vector<Shard> shards;
    for (wds::ShardSummary& shard : writer->finish()) shards.push_back({std::move(shard)});
    if (is_indexed_)
      write_manifest(shards);
    else if (replaces_)
      remove_manifest();
    return shards;
  }

  /// Leaves nothing of the open shard. A child that fork() made has none of the writer's threads,
  /// and the files are its parent's: there all is left as it is.
  void abandon() {
    if (opened_in_ != ::getpid()) {
      static_cast<void>(writer_.release());
      static_cast<void>(opener_.release());
      return;
    }
    const nb::gil_scoped_release others_run;
    writer_.reset();
  }

 private:
  /// With those that are there, unless they are replaced: of another writer, with other numbers.
  void write_manifest(const std::vector<Shard>& shards) const {
    wds::Manifest manifest = replaces_ ? wds::Manifest{} : earlier();
    for (const Shard& shard : shards)
      manifest.shards.push_back({.url = shard.url,
                                 .samples = shard.samples,
                                 .bytes = shard.bytes,
                                 .sha256 = shard.sha256});
    std::ranges::sort(manifest.shards, {}, &wds::ManifestShard::url);
    manifest.samples.reset();
    wds::write_manifest(manifest, manifest_, io::Replace::kAtomically, opener_.get());
  }
  wds::Manifest earlier() const {
    try {
      return wds::read_manifest(*opener_, manifest_);
    } catch (const Error& error) {
      if (!cannot_be_seen(error)) throw;
      return {};
    }
  }
  /// It says what shards had that were replaced.
  void remove_manifest() const {
    if (!io::is_network_url(manifest_)) {
      std::filesystem::remove(manifest_);
      return;
    }
    try {
      opener_->remove(manifest_);
    } catch (const Error& error) {
      if (!cannot_be_seen(error)) throw;
    }
  }
  void check_open() const {
    require(opened_in_ == ::getpid(), "the writer is of the process that this one was forked from");
    require(writer_ != nullptr, "the writer is closed");
  }

  const pid_t opened_in_ = ::getpid();
  std::unique_ptr<const io::UrlOpener> opener_;
  std::string manifest_;
  bool is_indexed_;
  bool replaces_;
  std::unique_ptr<wds::ShardWriter> writer_;
};

using Pixels = nb::ndarray<const std::uint8_t, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Numbers = nb::ndarray<const std::int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

nb::bytes bytes_of(const io::Bytes& encoded) { return nb::bytes(encoded.data(), encoded.size()); }

/// A side that a file can have. Throws: InvalidArgument.
int side_of(std::size_t pixels) {
  require(pixels > 0 && pixels <= 65535, "a picture's sides are from 1 to 65535 pixels");
  return static_cast<int>(pixels);
}

decode::Image image_of(const Pixels& pixels) {
  const std::size_t channels = pixels.shape(2);
  require(channels == 1 || channels == 3 || channels == 4,
          "a picture's array has 1, 3 or 4 channels");
  return {.height = side_of(pixels.shape(0)),
          .width = side_of(pixels.shape(1)),
          .channels = static_cast<int>(channels),
          .pixels = io::Bytes::copy_of(std::as_bytes(std::span(pixels.data(), pixels.size())))};
}

io::Bytes encoded(const decode::Image& image, const std::string& suffix, int quality) {
  const nb::gil_scoped_release others_run;
  if (suffix == "png") return decode::encode_png(image);
  if (suffix == "ppm" || suffix == "pgm") return decode::encode_pnm(image);
  return decode::encode_jpeg(image, {.quality = quality});
}

nb::bytes encode_picture(const Pixels& pixels, const std::string& suffix, int quality) {
  require(quality >= 1 && quality <= 100, "a JPEG's quality is from 1 to 100");
  return bytes_of(encoded(image_of(pixels), suffix, quality));
}

nb::bytes encode_mask(const Numbers& numbers, int least_bits) {
  const decode::ClassImage mask{.height = side_of(numbers.shape(0)),
                                .width = side_of(numbers.shape(1)),
                                .labels = {numbers.data(), numbers.data() + numbers.size()}};
  return bytes_of(decode::encode_mask_png(mask, {}, least_bits));
}

}  // namespace

void bind_shard_writer(nb::module_& module) {
  nb::class_<Shard>(module, "Shard", "A shard that a ShardWriter has completed.")
      .def_ro("url", &Shard::url, "Its path or URL.")
      .def_ro("samples", &Shard::samples, "How many it has.")
      .def_ro("bytes", &Shard::bytes, "Of the tar file.")
      .def_ro("sha256", &Shard::sha256, "Of the tar file; empty without an index.")
      .def("__repr__", [](const Shard& self) {
        return "<Shard " + self.url + ": " + std::to_string(self.samples) + " samples>";
      });
  nb::class_<Writer>(module, "Writer", "What ShardWriter writes with.")
      .def(nb::init<const std::string&, std::uint64_t, std::uint64_t, std::uint64_t, std::int64_t,
                    bool, bool>(),
           nb::arg("pattern"), nb::arg("max_samples"), nb::arg("max_bytes"), nb::arg("start_shard"),
           nb::arg("mtime"), nb::arg("index"), nb::arg("replace"))
      .def("write", &Writer::write, nb::arg("key"), nb::arg("fields"))
      .def("finish", &Writer::finish)
      .def("abandon", &Writer::abandon);
  module.def("encode_picture", &encode_picture, nb::arg("pixels"), nb::arg("suffix"),
             nb::arg("quality"), "A picture's file, of (H, W, C).");
  module.def("encode_mask", &encode_mask, nb::arg("numbers"), nb::arg("least_bits"),
             "A mask's PNG, of (H, W), with 8 or 16 bits a pixel.");
}

}  // namespace millrace::python
