// millrace verify: reads, checks and decodes everything, and reports it.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <unordered_set>

#include "io/base/error.h"
#include "io/base/machine.h"
#include "io/base/text.h"
#include "io/same_file.h"
#include "tools/commands.h"
#include "tools/manifest_facts.h"
#include "tools/option_settings.h"
#include "tools/per_shard.h"
#include "tools/progress.h"
#include "tools/read_options.h"
#include "tools/run_processes.h"
#include "tools/shared_work.h"
#include "tools/values.h"
#include "tools/verify/packed_report.h"
#include "tools/verify/set_report.h"
#include "tools/verify/shard_check.h"
#include "wds/manifest.h"
#include "wds/parquet_shard.h"
#include "wds/shard_spec.h"

namespace millrace::tools {
namespace {

class VerifyCommand final : public Command {
 public:
  std::string name() const override { return "verify"; }
  std::string summary() const override {
    return "Reads, checks and decodes everything; lists all faults";
  }
  std::string example() const override {
    return "  millrace verify 'train-{000000..000019}.tar'\n  millrace verify --json "
           "https://host/train.json > report.json\n\nA shard is compared with its index (CRC-32, "
           "counts, end), and with a manifest that lists it (SPEC,\n--manifest, or "
           "PREFIX-manifest.json beside it): samples, bytes, SHA-256. Verification "
           "continues\nafter a fault; the exit status is then 1.\n";
  }

  void declare(CLI::App& app) override {
    read_.declare_specs(app);
    read_.faults.declare_for_survey(app);
    read_.network.declare(app);
    app.add_option("--manifest", manifest_,
                   "Manifest to compare the shards with [PREFIX-manifest.json beside them]")
        ->type_name("FILE");
    app.add_option("--threads", threads_, "Shards checked at once; 0: one per core")
        ->transform(whole_number(0, kMaxThreads))
        ->check(own_of_process());
  }
  void check() override { read_.check(); }

  void run(CommandContext& context) override {
    processes_.emplace(context);
    processes_->guard(context, [&] { verify_all(context); });
  }

 private:
  void verify_all(CommandContext& context) {
    read_.network.attach(context);
    const auto listed = read_.lists.entries(read_.specs);
    const auto opener = read_.network.opener();
    std::vector<std::string> shards;
    shards.reserve(listed.size());
    for (const wds::ManifestShard& shard : listed) shards.push_back(shard.url);
    SetReport report;
    const ManifestFacts manifests = find_manifests(listed, shards, *opener, context.log, report);
    check_shards(shards, manifests, context, report);
    trainer::decide(processes_->cluster(), [&] {
      print(report, context);
      throw_first(report);
      return std::string();
    });
  }

  /// Leaves all shards' reports in process 0's.
  void check_shards(const std::vector<std::string>& all_shards, const ManifestFacts& manifests,
                    CommandContext& context, SetReport& report) {
    const auto shards = own_shards(all_shards, processes_->topology());
    Progress progress(context.terminal, "shards", shards.size(), "reading the first shards");
    const auto followed = progress.follow(read_.network.opener(), shards);
    const CheckInput input{.opener = *followed,
                           .shard = read_.faults.shard_options(context.stop),
                           .require_index = read_.faults.require_index,
                           .tolerate_truncated = read_.faults.tolerate_truncated,
                           .manifests = manifests};
    std::uint64_t done = 0;
    std::vector<nlohmann::json> own;
    const auto take = [&](ShardReport shard) {
      progress.at(++done);
      if (!processes_->is_alone()) return own.push_back(pack(shard));
      report.add(std::move(shard));
    };
    per_shard<ShardReport>(
        {.shards = shards, .threads = threads_, .stop = context.stop},
        [&](const std::string& url) { return check_shard(url, input); }, take);
    if (processes_->is_alone()) return;
    const auto all = in_shard_order(processes_->cluster(), own);
    if (!processes_->is_first()) return;
    for (const nlohmann::json& one : all) report.add(unpack_report(one));
  }

  static void throw_first(const SetReport& report) {
    if (report.num_faults == 0 && report.samples() == 0)
      throw Error(ErrorCode::kNotFound, "no sample in " + counted(report.shards, "shard"));
    if (report.num_faults == 0) return;
    const wds::FaultLedger::Entry& first = report.faults.front();
    throw Error(first.code,
                fmt::format("{} in {}, {} of them skipped, the first: {}",
                            counted(report.num_faults, "fault"),
                            counted(report.samples(), "sample"), report.skipped, first.message),
                first.where);
  }

  ManifestFacts find_manifests(const std::vector<wds::ManifestShard>& listed,
                               const std::vector<std::string>& shards, const io::Opener& opener,
                               const Log& log, SetReport& report) const {
    ManifestFacts facts;
    wds::FaultLedger ledger({.on_fault = wds::OnFault::kSkip});
    if (!manifest_.empty()) {
      const wds::Manifest manifest = wds::read_manifest(opener, manifest_);
      facts.add(manifest, manifest_, ledger);
      report_unlisted(shards, manifest, ledger);
    }
    for (const std::string& spec : read_.specs)
      if (spec.ends_with(".json") && wds::union_parts(spec).size() == 1 &&
          spec.find('{') == spec.npos)
        facts.add(wds::read_manifest(opener, spec), spec, ledger);
    facts.add(listed);
    if (manifest_.empty()) facts.find_beside(shards, opener, ledger);
    if (manifest_.empty() && processes_->is_first()) warn_of_difference(facts, shards, log);
    if (!manifest_.empty()) report_missing(facts, shards, ledger);
    report.add(ledger.entries());
    return facts;
  }

  static std::string identity(const std::string& url) {
    return io::file_identity(wds::stored_url(url));
  }

  /// Shards that are asked for and not there are faults of their own.
  static std::vector<std::string> missing_unasked(const ManifestFacts& facts,
                                                  const std::vector<std::string>& shards) {
    std::vector<std::string> missing = facts.missing();
    if (missing.empty()) return missing;
    std::unordered_set<std::string> asked;
    for (const std::string& shard : shards) asked.insert(identity(shard));
    std::erase_if(missing, [&](const std::string& one) { return asked.contains(identity(one)); });
    return missing;
  }

  static void report_missing(const ManifestFacts& facts, const std::vector<std::string>& shards,
                             wds::FaultLedger& ledger) {
    for (const std::string& shard : missing_unasked(facts, shards))
      ledger.report(Error(ErrorCode::kNotFound, "the manifest lists the shard, which is not here",
                          {.url = shard}),
                    0);
  }

  static void warn_of_difference(const ManifestFacts& facts, const std::vector<std::string>& shards,
                                 const Log& log) {
    const auto first_of = [](const std::vector<std::string>& some) {
      return io::printable_url(some.front()) +
             (some.size() > 1 ? fmt::format(" and {} more", some.size() - 1) : std::string());
    };
    const auto missing = missing_unasked(facts, shards);
    const char* const are = missing.size() > 1 ? "are" : "is";
    if (!missing.empty())
      log.warn(fmt::format("the manifest lists {}, which {} not here", first_of(missing), are));
    if (const auto unlisted = facts.unlisted(shards); !unlisted.empty())
      log.warn("the manifest does not list " + first_of(unlisted));
  }

  static void report_unlisted(const std::vector<std::string>& shards, const wds::Manifest& manifest,
                              wds::FaultLedger& ledger) {
    std::unordered_set<std::string> listed;
    for (const wds::ManifestShard& shard : manifest.shards) listed.insert(identity(shard.url));
    for (const std::string& shard : shards)
      if (!listed.contains(identity(shard)))
        ledger.report(
            Error(ErrorCode::kCorrupt, "the manifest does not list the shard", {.url = shard}), 0);
  }

  static void print(const SetReport& report, CommandContext& context) {
    if (context.json) {
      context.out.line(to_json(report));
    } else {
      for (const std::string& line : to_lines(report)) context.out.line(line);
    }
    context.out.flush();
  }

  std::optional<RunProcesses> processes_;  ///< until an error has been printed
  ReadOptions read_;
  std::string manifest_;
  int threads_ = 0;
};

}  // namespace

std::unique_ptr<Command> make_verify_command() { return std::make_unique<VerifyCommand>(); }

}  // namespace millrace::tools
