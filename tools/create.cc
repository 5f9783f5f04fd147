// millrace create: raw data to shards.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <numeric>

#include "io/base/error.h"
#include "io/base/rng.h"
#include "tools/commands.h"
#include "tools/create/folder_source.h"
#include "tools/create/idx_source.h"
#include "tools/create/parallel_write.h"
#include "tools/create/shard_set.h"
#include "tools/create/synthetic_source.h"
#include "tools/label_map.h"
#include "tools/output_place.h"
#include "tools/parse.h"
#include "tools/progress.h"
#include "wds/shard_writer.h"

namespace millrace::tools {
namespace {

std::vector<std::uint64_t> sample_order(std::uint64_t count,
                                        const std::optional<std::uint64_t>& shuffle_seed) {
  std::vector<std::uint64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  if (shuffle_seed) {
    KeyedRng rng({.seed = *shuffle_seed, .purpose = Purpose::kSampleShuffle});
    shuffle(std::span(order), rng);
  }
  return order;
}

wds::WriterSample to_writer_sample(wds::Sample sample) {
  wds::WriterSample out{.key = std::move(sample.key), .fields = {}};
  for (wds::Field& field : sample.fields)
    out.fields.push_back({std::move(field.suffix), std::move(field.data)});
  return out;
}

class CreateCommand final : public Command {
 public:
  std::string name() const override { return "create"; }
  std::string summary() const override {
    return "Writes shards from folders, IDX files, or made up";
  }
  std::string example() const override {
    return "  millrace create 'out/train-%06d.tar' --from-folder photos --shuffle 1 --maxcount "
           "5000\n"
           "  millrace create 'fmnist/train-%06d.tar' --from-idx train-images-idx3-ubyte.gz \\\n"
           "      train-labels-idx1-ubyte.gz\n"
           "  millrace create 'toy/train-%06d.tar' --synthetic classes --count 2000 --maxcount "
           "500\n";
  }

  void declare(CLI::App& app) override {
    app.add_option("PATTERN", pattern_, "Shards to write, their number as %06d")->required();
    declare_sources(*app.add_option_group("Source")->require_option(1));
    app.add_option("--maxcount", maxcount_, "Samples a shard, at most")
        ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 50));
    app.add_option("--maxsize", maxsize_, "Bytes that fill a shard: 3e9, 500M, 1GiB");
    app.add_option("--shuffle", shuffle_, "Shuffle all samples, by this seed")->type_name("SEED");
    app.add_flag("--force", force_, "Delete the pattern's shards that exist, and write anew");
    app.add_option("--format", encoding_.format, "Of images that are made or read from IDX files")
        ->check(CLI::IsMember({"jpg", "png", "ppm"}));
    app.add_option("--quality", encoding_.quality, "Of jpg")->check(CLI::Range(1, 100));
    app.add_option("--threads", threads_, "Threads that read and encode; 0: one a core")
        ->check(CLI::Range(0, 1024));
  }

  void check() override {
    static_cast<void>(wds::shard_name(pattern_, 0));
    static_cast<void>(parse_bytes("--maxsize", maxsize_));
    if (!force_) refuse_existing_shards(pattern_);
    check_writable_folder(std::filesystem::path(pattern_).parent_path().string());
    if (!synthetic_.kind.empty()) static_cast<void>(make_synthetic_source(synthetic()));
  }

  void run(Context& context) override {
    const auto source = open_source(context);
    make_parent_folders(pattern_);
    if (force_) delete_shards(pattern_);
    wds::ShardWriter writer({.pattern = pattern_,
                             .maxcount = static_cast<std::uint64_t>(maxcount_),
                             .maxsize = parse_bytes("--maxsize", maxsize_),
                             .on_shard = [&](const auto& shard) { report(shard, context); }});
    write(*source, writer, context);
    const std::size_t shards = writer.finish().size();
    if (const auto classes = source->classes(); !classes.empty())
      write_label_map(classes, label_map_url(wds::shard_name(pattern_, 0)));
    context.log.info(fmt::format("{} samples in {} shards", source->size(), shards));
  }

 private:
  void declare_sources(CLI::App& sources) {
    sources.add_option("--from-folder", folder_, "Folder of images, a sub-folder a class")
        ->check(CLI::ExistingDirectory)
        ->type_name("DIR");
    sources.add_option("--from-idx", idx_, "IDX files, gzipped or not")
        ->expected(2)
        ->check(CLI::ExistingFile)
        ->type_name("IMAGES LABELS");
    auto* made = sources.add_option_group("Synthetic");
    auto* kind = made->add_option("--synthetic", synthetic_.kind,
                                  "Made-up pictures: coloured shapes in classes")
                     ->check(CLI::IsMember(synthetic_kinds()));
    made->add_option("--count", synthetic_.count, "How many to make")
        ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 50))
        ->needs(kind);
    made->add_option("--classes", synthetic_.classes, "Of how many classes")->needs(kind);
    made->add_option("--size", synthetic_.size, "Their height and width")
        ->check(CLI::Range(8, 4096))
        ->needs(kind);
    made->add_option("--seed", synthetic_.seed, "What they are made from")->needs(kind);
  }

  SyntheticOptions synthetic() const {
    SyntheticOptions options = synthetic_;
    options.encoding = encoding_;
    return options;
  }

  std::unique_ptr<SampleSource> open_source(const Context& context) const {
    if (!folder_.empty()) return open_folder_source(folder_, context.log);
    if (!idx_.empty()) return open_idx_source(idx_[0], idx_[1], encoding_);
    return make_synthetic_source(synthetic());
  }

  void write(const SampleSource& source, wds::ShardWriter& writer, const Context& context) const {
    Progress progress("samples", source.size());
    std::uint64_t done = 0;
    const auto put = [&](wds::Sample sample) {
      writer.write(to_writer_sample(std::move(sample)));
      progress.at(++done);
    };
    parallel_write(source, sample_order(source.size(), shuffle_), put,
                   {.threads = threads_, .stop = context.stop});
  }

  static void report(const wds::ShardSummary& shard, Context& context) {
    if (!context.json) return;
    const nlohmann::ordered_json line = {
        {"url", shard.url}, {"samples", shard.samples}, {"bytes", shard.bytes}};
    context.out.line(line.dump());
    context.out.flush();
  }

  std::string pattern_;
  std::string folder_;
  std::vector<std::string> idx_;
  SyntheticOptions synthetic_{.kind = ""};
  ImageEncoding encoding_;
  std::int64_t maxcount_ = 100'000;
  std::string maxsize_ = "3e9";
  std::optional<std::uint64_t> shuffle_;
  bool force_ = false;
  int threads_ = 0;
};

}  // namespace

std::unique_ptr<Command> make_create_command() { return std::make_unique<CreateCommand>(); }

}  // namespace millrace::tools
