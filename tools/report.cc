// millrace report: runs' folders as one page.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "io/base/error.h"
#include "io/base/text.h"
#include "tools/commands.h"
#include "tools/help.h"
#include "tools/named_twice.h"
#include "tools/network_options.h"
#include "tools/output_place.h"
#include "tools/report/gallery.h"
#include "tools/report/page.h"
#include "tools/report/run_record.h"
#include "tools/values.h"

namespace millrace::tools {
namespace {

class ReportCommand final : public Command {
 public:
  std::string name() const override { return "report"; }
  std::string summary() const override {
    return "Draws a run as one HTML page, or several beside each other";
  }
  std::string example() const override {
    return "  millrace report runs/one -o one.html\n"
           "  millrace report runs/one runs/two -o both.html\n";
  }
  void declare(CLI::App& app) override {
    app.add_option("RUN", folders_, "Folders of runs (train --run-dir), or their urls")
        ->required()
        ->type_name("RUN")
        ->transform(output_path());
    app.add_option("-o,--output", out_, "The page, a single file that fetches nothing")
        ->required()
        ->type_name("FILE")
        ->transform(output_path());
    app.add_flag("--force", force_, "Replace the file if it exists");
    app.add_flag("--fetch", fetch_,
                 "Galleries: read pictures from shards in stores and on servers, too, as the runs "
                 "name them");
  }
  void check() override {
    check_output_file(out_, replace());
    refuse_named_twice(folders_);
  }

  void run(CommandContext& context) override {
    network_.attach(context);
    std::vector<RunRecord> runs;
    for (const std::string& folder : folders_) runs.push_back(read_run(*network_.opener(), folder));
    for (RunRecord& run : runs)
      draw_pictures(run, {.opener = *network_.opener(), .stop = context.stop, .fetch = fetch_});
    name_apart(runs);
    const std::string page = report_page(runs);
    const auto sink = open_output_file(*network_.opener(), out_, replace());
    sink->write(std::as_bytes(std::span(page)));
    sink->finish();
    print(runs, page.size(), context);
  }

 private:
  io::Replace replace() const { return force_ ? io::Replace::kAtomically : io::Replace::kNever; }

  /// Folders of the same name are told apart by their place.
  void name_apart(std::vector<RunRecord>& runs) const {
    std::set<std::string> names;
    for (const RunRecord& run : runs) names.insert(run.name);
    if (names.size() == runs.size()) return;
    for (std::size_t i = 0; i < runs.size(); ++i) runs[i].name = io::printable_url(folders_[i]);
  }

  void print(const std::vector<RunRecord>& runs, std::size_t bytes, CommandContext& context) const {
    std::size_t epochs = 0;
    for (const RunRecord& run : runs) {
      epochs += run.epochs.size();
      for (const std::string& note : run.notes) context.log.warn(run.name + ": " + note);
    }
    const std::string place = io::printable_url(out_);
    if (context.json) {
      context.out.line(RecordJson{
          {"out", place},
          {"runs", runs.size()},
          {"epochs", epochs},
          {"bytes", bytes}}.dump());
      return;
    }
    context.out.line(fmt::format("{}: {}, {}, {:.0f} kB", place, counted(runs.size(), "run"),
                                 counted(epochs, "epoch"), 1e-3 * static_cast<double>(bytes)));
  }

  NetworkOptions network_;
  std::vector<std::string> folders_;
  std::string out_;
  bool force_ = false;
  bool fetch_ = false;
};

}  // namespace

std::unique_ptr<Command> make_report_command() { return std::make_unique<ReportCommand>(); }

}  // namespace millrace::tools
