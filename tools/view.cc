// millrace view: a PNG sheet of samples as a model would see them, with their labels; or a page of
// the whole set.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "decode/text.h"
#include "decode/transforms.h"
#include "io/base/error.h"
#include "io/base/machine.h"
#include "io/base/text.h"
#include "tools/commands.h"
#include "tools/label_map.h"
#include "tools/multi_crop_option.h"
#include "tools/option_settings.h"
#include "tools/output_place.h"
#include "tools/progress.h"
#include "tools/read_options.h"
#include "tools/stream_cursor.h"
#include "tools/task_arena.h"
#include "tools/values.h"
#include "tools/view/picture.h"
#include "tools/view/sample_view.h"
#include "tools/view/set_page.h"
#include "tools/view/set_survey.h"
#include "tools/view/sheet.h"
#include "tools/view/visible.h"
#include "wds/join.h"
#include "wds/printable_spec.h"
#include "wds/sample_stream.h"

namespace millrace::tools {
namespace {

// With a shuffle, samples come from this many shards in turn, through a buffer each.
constexpr std::size_t kShuffleShards = 16;
constexpr std::int64_t kSheetShuffle = 100;
constexpr int kDefaultSize = 224;
constexpr std::size_t kSheetSamples = 36;
constexpr std::size_t kPagePictures = 120;
constexpr std::size_t kMostPagePictures = 2'000;

class ViewCommand final : public Command {
 public:
  std::string name() const override { return "view"; }
  std::string summary() const override {
    return "Draws samples as a model would see them, or a page of a whole set";
  }
  std::string example() const override {
    return "  millrace view 'train-{000000..000019}.tar' -o seen.png --size 32 --augment hflip "
           "\\\n      --shuffle-seed 7\n"
           "  millrace view train-000000.tar -o stored.png --raw --count 100\n"
           "  millrace view train-000000.tar -o pairs.png --fields jpg,mask.png,depth.png\n"
           "  millrace view train-000000.tar -o views.png --augment 'rrc, hflip' --multi-crop \\\n"
           "      'views(2, 224), views(8, 96, [rrc(area=0.05..0.4), hflip])'\n"
           "  millrace view coco-000000.tar -o boxes.png --boxes json --augment rrc-flip\n"
           "  millrace view 'train-{000000..000019}.tar' --html train.html --against "
           "val-000000.tar\n";
  }

  std::vector<const Table*> tables() const override {
    return {&decode::standard_transforms(), &MultiCropOption::table()};
  }
  void declare(CLI::App& app) override {
    read_.declare(app);
    on_fault_ = app.get_option("--on-fault");
    app.add_option("--count", count_,
                   "Samples to show [36; with --html 120, at most 2000, evenly through the set]")
        ->transform(whole_number(1, 10'000));
    app.add_option("--fields", view_.fields,
                   "Pictures of a sample, side by side: the image, then masks and others; a;b: "
                   "whichever it has; --html takes the first")
        ->delimiter(',')
        ->type_name("SUFFIX,...");
    app.add_flag("--force", force_, "Replace an existing picture or page");
    declare_page(app);
    const std::size_t declared = app.get_options().size();
    declare_sheet(app);
    const auto options = app.get_options();
    for (std::size_t i = declared; i < options.size(); ++i) page_->excludes(options[i]);
  }

  void check() override {
    require(output_.empty() == !html_.empty(),
            "give a file to write: --output FILE.png or --html FILE");
    if (!html_.empty()) return check_page();
    require(against_.empty() && limit_ == 0 && threads_ == 0,
            "--against, --limit and --threads are for --html");
    settle();
    read_.check();
    check_picture_name(output_);
    check_output_file(output_, replace());
  }

  void run(CommandContext& context) override {
    read_.network.attach(context);
    if (!html_.empty()) return draw_page(context);
    const auto shards = std::make_shared<const std::vector<std::string>>(read_.shards());
    const auto opener = read_.network.opener();
    names_ = read_label_map(*opener, shards->front());
    wds::FaultLedger ledger(read_.policy(), context.log);
    auto streams = open(shards, ledger, context.stop);
    const auto cells = gather(streams, ledger);
    if (cells.empty())
      throw Error(ErrorCode::kNotFound,
                  "no sample to show in " + wds::printable_spec(read_.specs.front()));
    const decode::Image sheet =
        draw_sheet(cells, {.columns = columns(cells.size()), .legend = legend()});
    const auto sink = open_output_file(*opener, output_, replace());
    sink->write(encode_picture(sheet, output_).span());
    sink->finish();
    print(cells, sheet, context);
  }

 private:
  void declare_page(CLI::App& app) {
    page_ = app.add_option("--html", html_,
                           "Write a page of the whole set instead: pictures, histograms, "
                           "duplicates, outliers, broken samples; one file that fetches nothing. "
                           "Damaged samples are skipped, unless --on-fault says otherwise")
                ->type_name("FILE")
                ->transform(output_path());
    app.add_option("--against", against_,
                   "With --html: another set, such as the one to evaluate on; the page shows which "
                   "pictures are in both")
        ->type_name("SPEC")
        ->allow_extra_args(false);
    app.add_option("--limit", limit_, "With --html: maximum samples to read of each set; 0: all")
        ->transform(whole_number(0));
    app.add_option("--max-pictures", most_pictures_,
                   "With --html: maximum pictures of a set to compare with each other; of a larger "
                   "set one in 2, 4, 8, ..., chosen by the digest of their bytes")
        ->transform(whole_number(1, std::uint64_t{1} << 32U));
    app.add_option("--threads", threads_, "With --html: decoding threads; 0: one per core")
        ->transform(whole_number(0, kMaxThreads))
        ->check(own_of_process());
  }

  /// What only a sheet of samples has.
  void declare_sheet(CLI::App& app) {
    app.add_option(
           "-o,--output", output_,
           "The picture to write, as its suffix says (.png, .jpg, .ppm); a file, or an s3:// or "
           "gs:// url")
        ->type_name("FILE.png")
        ->transform(output_path());
    read_.declare_join(app);
    app.add_option("--columns", columns_, "Samples in a row; 0: as many as rows")
        ->transform(whole_number(0, 1'000));
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
    view_.images.declare_shape(app);
    view_.images.declare_reading(app);
    multi_crop_.declare(app);
  }

  void check_page() {
    require(count_.value_or(0) <= kMostPagePictures, "--html shows 2000 pictures at most");
    read_.check();
    if (!against_.empty()) read_.check(against_);
    check_output_file(html_, replace());
  }

  void draw_page(CommandContext& context) {
    const auto opener = read_.network.opener();
    SetPage page;
    page.surveys.push_back(survey(read_.specs, context, page));
    page.class_names = read_label_map(*opener, page.surveys.front().shards.front().url);
    if (!against_.empty()) page.surveys.push_back(survey(against_, context, page));
    show_status(context.terminal, "comparing the pictures");
    find_what_to_show(page, count_.value_or(kPagePictures));
    read_page_thumbnails(page, {.opener = *opener,
                                .stop = context.stop,
                                .tolerate_truncated = read_.faults.tolerate_truncated,
                                .threads = threads_,
                                .terminal = context.terminal});
    const std::string text = set_page(page);
    const auto sink = open_output_file(*opener, html_, replace());
    sink->write(std::as_bytes(std::span(text)));
    sink->finish();
    print_page(page, text.size(), context);
  }

  /// Of the set that `specs` name, which `page` does then too.
  SetSurvey survey(const std::vector<std::string>& specs, const CommandContext& context,
                   SetPage& page) const {
    std::string named;
    for (const std::string& spec : specs)
      named += (named.empty() ? "" : " ") + wds::printable_spec(spec);
    page.specs.push_back(named);
    wds::FaultPolicy policy = read_.policy();
    if (on_fault_->count() == 0) policy.on_fault = wds::OnFault::kSkip;
    return survey_set({.shards = read_.lists.urls(specs),
                       .opener = *read_.network.opener(),
                       .policy = policy,
                       .log = context.log,
                       .stop = context.stop,
                       .suffixes = view_.fields.front(),
                       .tolerate_truncated = read_.faults.tolerate_truncated,
                       .limit = limit_,
                       .threads = threads_,
                       .most_pictures = most_pictures_,
                       .set = static_cast<std::uint32_t>(page.surveys.size()),
                       .terminal = context.terminal});
  }

  void print_page(const SetPage& page, std::size_t bytes, CommandContext& context) const {
    const SetSurvey& set = page.surveys.front();
    const std::string place = io::printable_url(html_);
    if (!context.json) {
      std::string said = fmt::format(
          "{}: {}, {} broken, {} with the same bytes as another, {} alike", place,
          counted(set.samples(), "sample"), set.broken, surplus(page.copies), surplus(page.alike));
      if (set.num_pictureless > 0)
        said += fmt::format(", {} without a picture", set.num_pictureless);
      if (!page.contradicting.empty())
        said += fmt::format(", {} of different classes", page.contradicting.size());
      if (page.has_two_sets())
        said += fmt::format(", {} in both sets and {} alike", page.leaked_copies.size(),
                            page.leaked_alike.size());
      context.out.line(fmt::format("{}; {:.0f} kB", said, 1e-3 * static_cast<double>(bytes)));
      return;
    }
    nlohmann::ordered_json line = {{"file", place},
                                   {"bytes", bytes},
                                   {"samples", set.samples()},
                                   {"pictures", set.num_pictures()},
                                   {"broken", set.broken},
                                   {"without_picture", set.num_pictureless},
                                   {"same_bytes", surplus(page.copies)},
                                   {"of_different_classes", page.contradicting.size()},
                                   {"alike", surplus(page.alike)},
                                   {"not_drawn", page.thumbnails.num_missing()}};
    for (const Outliers& kind : page.outliers) line["outliers"][kind.name] = kind.pictures.size();
    if (page.has_two_sets())
      line.update(
          {{"in_both", page.leaked_copies.size()}, {"alike_in_both", page.leaked_alike.size()}});
    context.out.line(json_text(line));
  }

  io::Replace replace() const { return force_ ? io::Replace::kAtomically : io::Replace::kNever; }

  void settle() {
    if (!view_.images.has_size()) view_.images.size = kDefaultSize;
    if (view_.images.channels == 0) view_.images.channels = 3;
    view_.images.whole = view_.fields.size() > 1;  // as the tasks that learn from pairs see them
    view_.images.settle();
    view_.images.check();
    view_.tolerate_truncated = read_.faults.tolerate_truncated;
    if (multi_crop_.is_given()) settle_views();
  }

  void settle_views() {
    require(!view_.raw && !view_.evaluation,
            "--multi-crop draws training's views: without --raw and --eval");
    require(view_.fields.size() == 1 && view_.boxes.empty(),
            "--multi-crop draws views of one picture: without --boxes, and with one field");
    view_.views = multi_crop_.views(view_.images);
  }

  std::vector<StreamCursor> open(std::shared_ptr<const std::vector<std::string>> shards,
                                 wds::FaultLedger& ledger, const std::stop_token& stop) const {
    const std::size_t streams_wanted =
        shuffle_ ? std::min({kShuffleShards, shards->size(), count()}) : 1;
    wds::StreamSpec spec{.shards = std::move(shards),
                         .num_streams = static_cast<int>(streams_wanted)};
    if (const auto joins = read_.joined(); !joins.empty())
      spec.found.joins = std::make_shared<const wds::Joins>(*spec.shards, joins);
    if (shuffle_)
      spec.shuffle = {.shards = true, .buffer_samples = kSheetShuffle, .seed = *shuffle_};
    std::vector<StreamCursor> streams;
    for (spec.stream = 0; spec.stream < spec.num_streams; ++spec.stream)
      streams.emplace_back(wds::SampleStream(spec, *read_.network.opener(), ledger, stop));
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
        if (!add_cell(*sample, ledger, cells) || cells.size() == count()) return cells;
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
      fault.annotate({.url = *sample.url, .key = sample.key});
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

  std::size_t count() const { return count_.value_or(kSheetSamples); }

  int columns(std::size_t cells) const {
    if (columns_ > 0) return columns_;
    return static_cast<int>(std::ceil(std::sqrt(static_cast<double>(cells))));
  }

  void print(const std::vector<Cell>& cells, const decode::Image& sheet,
             CommandContext& context) const {
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
  MultiCropOption multi_crop_;
  std::string output_;
  std::optional<std::size_t> count_;
  int columns_ = 0;
  std::optional<std::uint64_t> shuffle_;
  bool force_ = false;
  CLI::Option* on_fault_ = nullptr;  ///< of the app, as the next
  CLI::Option* page_ = nullptr;
  std::string html_;
  std::vector<std::string> against_;
  std::uint64_t limit_ = 0;
  std::uint64_t most_pictures_ = kMostSurveyed;
  int threads_ = 0;
  std::vector<std::string> names_;
  bool shows_classes_ = false;
};

}  // namespace

std::unique_ptr<Command> make_view_command() { return std::make_unique<ViewCommand>(); }

}  // namespace millrace::tools
