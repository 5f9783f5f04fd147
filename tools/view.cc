// millrace view: a PNG sheet of samples as a model would see them, with their labels.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "decode/text.h"
#include "decode/transforms.h"
#include "io/base/error.h"
#include "io/base/text.h"
#include "tools/commands.h"
#include "tools/label_map.h"
#include "tools/output_place.h"
#include "tools/read_options.h"
#include "tools/stream_cursor.h"
#include "tools/values.h"
#include "tools/view/picture.h"
#include "tools/view/sample_view.h"
#include "tools/view/sheet.h"
#include "tools/view/visible.h"
#include "wds/sample_stream.h"

namespace millrace::tools {
namespace {

// With a shuffle, samples come from this many shards in turn, through a buffer each.
constexpr std::size_t kShuffleShards = 16;
constexpr std::int64_t kSheetShuffle = 100;
constexpr int kDefaultSize = 224;

class ViewCommand final : public Command {
 public:
  std::string name() const override { return "view"; }
  std::string summary() const override { return "Draws samples as a model would see them"; }
  std::string example() const override {
    return "  millrace view 'train-{000000..000019}.tar' -o seen.png --size 32 --augment hflip "
           "\\\n      --shuffle-seed 7\n"
           "  millrace view train-000000.tar -o stored.png --raw --count 100\n"
           "  millrace view train-000000.tar -o pairs.png --fields jpg,mask.png,depth.png\n"
           "  millrace view coco-000000.tar -o boxes.png --boxes json --augment rrc-flip\n";
  }

  std::vector<const Table*> tables() const override { return {&decode::standard_transforms()}; }
  void declare(CLI::App& app) override {
    read_.declare(app);
    read_.declare_join(app);
    app.add_option(
           "-o,--output", output_,
           "The picture to write, as its suffix says (.png, .jpg, .ppm); a file, or an s3:// or "
           "gs:// url")
        ->required()
        ->type_name("FILE.png");
    app.add_option("--count", count_, "Samples to show")->transform(whole_number(1, 10'000));
    app.add_option("--columns", columns_, "Samples in a row; 0: as many as rows")
        ->transform(whole_number(0, 1'000));
    app.add_option("--fields", view_.fields,
                   "Pictures of a sample, side by side: the image, then masks and others; a;b: "
                   "whichever it has")
        ->delimiter(',')
        ->type_name("SUFFIX,..");
    app.add_option("--boxes", view_.boxes,
                   "Draw the boxes of objects in this member, JSON as create --from-json writes it")
        ->type_name("SUFFIX");
    app.add_flag("--raw", view_.raw, "Draw images as stored, shrunk to 512 pixels at most");
    app.add_flag("--eval", view_.evaluation, "Use evaluation's transforms: nothing random");
    app.add_option("--seed", view_.seed, "Seed of the random transforms")->transform(seed_number());
    app.add_option("--shuffle-seed", shuffle_,
                   "Choose samples at random, by this seed, instead of the first ones")
        ->transform(seed_number())
        ->type_name("SEED");
    app.add_flag("--force", force_, "Replace an existing picture");
    view_.images.declare_shape(app);
    view_.images.declare_reading(app);
  }

  void check() override {
    settle();
    read_.check();
    check_picture_name(output_);
    check_output_file(output_, replace());
  }

  void run(Context& context) override {
    read_.attach(context);
    const auto shards = std::make_shared<const std::vector<std::string>>(read_.shards());
    const auto opener = read_.opener();
    names_ = read_label_map(*opener, shards->front());
    wds::FaultLedger ledger(read_.policy(), context.log);
    auto streams = open(shards, ledger, context.stop);
    const auto cells = gather(streams, ledger);
    if (cells.empty())
      throw Error(ErrorCode::kNotFound,
                  "no sample to show in " + printable_spec(read_.specs().front()));
    const decode::Image sheet =
        draw_sheet(cells, {.columns = columns(cells.size()), .legend = legend()});
    const auto sink = open_output_file(*opener, output_, replace());
    sink->write(encode_picture(sheet, output_).span());
    sink->finish();
    print(cells, sheet, context);
  }

 private:
  io::Replace replace() const { return force_ ? io::Replace::kAtomically : io::Replace::kNever; }

  void settle() {
    if (!view_.images.has_size()) view_.images.size = kDefaultSize;
    if (view_.images.channels == 0) view_.images.channels = 3;
    view_.images.whole = view_.fields.size() > 1;  // as the tasks that learn from pairs see them
    view_.images.settle();
    view_.images.check();
    view_.tolerate_truncated = read_.tolerate_truncated();
  }

  std::vector<StreamCursor> open(std::shared_ptr<const std::vector<std::string>> shards,
                                 wds::FaultLedger& ledger, const std::stop_token& stop) const {
    const std::size_t count = shuffle_ ? std::min({kShuffleShards, shards->size(), count_}) : 1;
    wds::StreamSpec spec{.shards = std::move(shards), .num_streams = static_cast<int>(count)};
    if (const auto joins = read_.joins(); !joins.empty())
      spec.joins = std::make_shared<const wds::Joins>(*spec.shards, joins);
    if (shuffle_)
      spec.shuffle = {.shards = true, .buffer_samples = kSheetShuffle, .seed = *shuffle_};
    std::vector<StreamCursor> streams;
    for (spec.stream = 0; spec.stream < spec.num_streams; ++spec.stream)
      streams.emplace_back(wds::SampleStream(spec, *read_.opener(), ledger, stop));
    return streams;
  }

  /// One sample of each stream in turn, until there are enough or none is left.
  std::vector<Cell> gather(std::vector<StreamCursor>& streams, wds::FaultLedger& ledger) {
    std::vector<Cell> cells;
    for (bool found = true; found;) {
      found = false;
      for (StreamCursor& stream : streams) {
        const wds::Sample* sample = stream.next();
        if (sample == nullptr) continue;
        found = true;
        if (!add_cell(*sample, ledger, cells) || cells.size() == count_) return cells;
      }
    }
    return cells;
  }

  /// Returns false if the fault policy ends the samples here.
  bool add_cell(const wds::Sample& sample, wds::FaultLedger& ledger, std::vector<Cell>& cells) {
    try {
      cells.push_back({.pictures = SampleView(view_).pictures(sample, cells.size()),
                       .label = label_of(sample)});
      shows_classes_ = shows_classes_ || SampleView(view_).shows_classes(sample);
    } catch (Error& fault) {
      fault.annotate({.url = io::printable_url(*sample.url), .key = sample.key});
      return ledger.report(fault) != wds::OnFault::kStop;
    }
    return true;
  }

  /// The class, by name if it has one; without a class, the sample's key.
  std::string label_of(const wds::Sample& sample) const {
    const wds::Field* field = sample.find("cls");
    if (field == nullptr) return sample.key;
    const std::int64_t label = decode::decode_integer(field->data);
    const bool named = label >= 0 && static_cast<std::uint64_t>(label) < names_.size();
    return named ? names_[static_cast<std::size_t>(label)] : fmt::format("class {}", label);
  }

  /// The classes of a mask, if the label map names them.
  std::vector<LegendEntry> legend() const {
    if (!shows_classes_ || names_.empty()) return {};
    std::vector<decode::RgbColour> palette;
    for (std::size_t k = 0; k < names_.size(); ++k)
      palette.push_back(class_colour(static_cast<std::int64_t>(k)));
    return class_legend(palette, names_);
  }

  int columns(std::size_t cells) const {
    if (columns_ > 0) return columns_;
    return static_cast<int>(std::ceil(std::sqrt(static_cast<double>(cells))));
  }

  void print(const std::vector<Cell>& cells, const decode::Image& sheet, Context& context) const {
    if (!context.json) {
      context.log.info(fmt::format("{}: {}, {} x {} pixels", io::printable_url(output_),
                                   counted(cells.size(), "sample"), sheet.width, sheet.height));
      return;
    }
    auto labels = nlohmann::ordered_json::array();
    for (const Cell& cell : cells) labels.push_back(cell.label);
    const nlohmann::ordered_json line = {{"file", io::printable_url(output_)},
                                         {"samples", cells.size()},
                                         {"width", sheet.width},
                                         {"height", sheet.height},
                                         {"labels", labels}};
    context.out.line(json_text(line));
  }

  ReadOptions read_;
  SampleViewOptions view_;
  std::string output_;
  std::size_t count_ = 36;
  int columns_ = 0;
  std::optional<std::uint64_t> shuffle_;
  bool force_ = false;
  std::vector<std::string> names_;
  bool shows_classes_ = false;
};

}  // namespace

std::unique_ptr<Command> make_view_command() { return std::make_unique<ViewCommand>(); }

}  // namespace millrace::tools
