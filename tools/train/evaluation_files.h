// What a run leaves of its evaluations beside their measures, for its page: evaluation.json, of the
// last one, evaluation-best.json, of the best, and first-batch.json, pictures as the model sees
// them. Bounded: classes and samples by name are at most as many as a page has room for.
//
// Threads: free functions, and EvaluationFiles as trainer::Observer.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "decode/class_mask.h"
#include "pipeline/fields.h"
#include "tools/image_options.h"
#include "tools/report/run_record.h"
#include "tools/train/run_folder_writer.h"
#include "tools/train/task_choice.h"
#include "trainer/evaluation_details.h"
#include "trainer/observer.h"

namespace millrace::tools {

/// trainer::kPlaceField for samples of these shards.
pipeline::FunctionField place_field(const std::vector<std::string>& shards);

/// What the numbers in an evaluation's details are called.
struct DetailNames {
  std::vector<std::string> classes = {};  ///< by number; empty: numbers alone
  std::vector<decode::RgbColour> palette = {};
  std::vector<std::string> shards = {};  ///< as place_field() was given
};
/// `classes`: names by number where the task has none of its own.
DetailNames detail_names(const TaskChoice& task, std::int64_t outputs,
                         std::vector<std::string> classes, std::vector<std::string> shards);

/// An evaluation's details as tools/report/evaluation.h reads them; `what` begins it: {"epoch": 3}.
RecordJson details_json(const trainer::EvaluationDetails& details, const DetailNames& names,
                        RecordJson what);

/// Writes what a run trains on at first. Lifetime: `files` is borrowed.
std::function<void(const pipeline::Batch&)> first_batch_file(RunFolderWriter& files,
                                                             const ImageOptions& images);

class EvaluationFiles final : public trainer::Observer {
 public:
  /// `objective` and `files` are borrowed; null: nothing is written.
  EvaluationFiles(const trainer::DetailedObjective& objective, RunFolderWriter* files,
                  DetailNames names);

  void on_evaluation_end(const trainer::EpochEvent& event) override;
  void on_epoch_end(const trainer::EpochEvent& event) override;

 private:
  const trainer::DetailedObjective& objective_;
  RunFolderWriter* files_;
  DetailNames names_;
  std::string text_;  ///< of the last evaluation; empty: none, or nothing was found
};

}  // namespace millrace::tools
