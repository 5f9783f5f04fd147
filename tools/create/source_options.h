// SourceOptions: the part of `create`'s command line that describes the source of the samples.
//
// Threads: one at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/base/log.h"
#include "tools/create/csv_source.h"
#include "tools/create/image_file.h"
#include "tools/create/pair_folder.h"
#include "tools/create/sample_source.h"
#include "tools/create/synthetic_source.h"

namespace CLI {
class App;
}

namespace millrace::tools {

class SourceOptions {
 public:
  void declare(CLI::App& app);
  /// Throws: InvalidArgument for options that contradict each other or do not apply to the source.
  void check() const;
  /// Opens, lists or reads the source. Throws: InvalidArgument, and as the source.
  std::unique_ptr<SampleSource> open(const Log& log) const;
  /// All options that affect the samples' bytes, as one text.
  std::string text() const;

 private:
  void declare_files(CLI::App& app);
  void declare_table(CLI::App& app);
  void declare_synthetic(CLI::App& app);
  void declare_encoding(CLI::App& app);
  void check_source() const;
  void check_table() const;
  void check_encoding() const;
  void check_pairs() const;
  std::vector<FolderPair> pairs() const;
  bool from_files() const { return !folder_.empty() || !csv_.table.empty() || !list_.empty(); }
  ImageEncoding encoding() const;
  Recoding recoding() const;
  Outside outside() const { return allow_outside_ ? Outside::kAllowed : Outside::kRefused; }
  CsvOptions csv() const;
  SyntheticOptions synthetic() const;

  std::string folder_;
  std::vector<std::string> pairs_;
  std::vector<std::string> cifar_;
  std::vector<std::string> idx_;
  std::string list_;
  bool allow_outside_ = false;
  CsvOptions csv_;
  SyntheticOptions synthetic_{.kind = ""};
  std::string format_;
  std::string resize_;
  int quality_ = 0;  ///< 0: not given
};

}  // namespace millrace::tools
