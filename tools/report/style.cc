#include "tools/report/style.h"

#include <string_view>

#include "tools/text_edit.h"
namespace millrace::tools {
namespace {

constexpr const char* kStyle = R"css(
:root{color-scheme:light dark;--paper:#f6f7f9;--card:#fff;--ink:#1b2330;--soft:#5a6677;--line:#dfe4ea;
--grid:#e9edf2;--good:#1a7f4b;--bad:#b3261e;--note:#eef3fb;
--c0:#1940ac;--c1:#c78105;--c2:#33a294;--c3:#460125;--c4:#8877f8;--c5:#845d06;--c6:#0778a1;--c7:#454851}
@media (prefers-color-scheme:dark){:root{--paper:#11151b;--card:#1a2029;--ink:#e8edf4;--soft:#9fadbf;
--line:#2d3643;--grid:#262e3a;--good:#5fd39a;--bad:#ff8a80;--note:#1d2837;
--c0:#8195fd;--c1:#c46517;--c2:#9efbb2;--c3:#a1527f;--c4:#645adc;--c5:#b6bd36;--c6:#7ad9ff;--c7:#9a9ea1}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
main,header,footer{max-width:1560px;margin:0 auto;padding:0 clamp(14px,3vw,40px)}
header{padding-top:28px}
h1{font-size:clamp(1.5rem,3.5vw,2.3rem);line-height:1.2;margin:0 0 4px;overflow-wrap:anywhere;
letter-spacing:-.01em}
h2{font-size:1.2rem;margin:0 0 14px;letter-spacing:-.005em}
header h2{margin:30px 0 2px;font-size:1.35rem}
h3{font-size:1rem;margin:22px 0 8px}
.run{font-size:1.1rem;margin:30px 0 10px;padding-top:16px;border-top:1px solid var(--line);overflow-wrap:anywhere}
h2+.run{margin-top:0;padding-top:0;border:0}
p{margin:0 0 12px;max-width:100ch}
.soft{color:var(--soft)}
a{color:var(--c0)}
nav{display:flex;flex-wrap:wrap;gap:4px 18px;padding:14px 0 0;font-size:.92rem}
section{background:var(--card);border:1px solid var(--line);border-radius:14px;
padding:clamp(16px,2.2vw,28px);margin:20px 0}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(140px,1fr));gap:12px;margin:20px 0 0;
padding:0}
.tiles div{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:12px 16px}
.tiles dt{color:var(--soft);font-size:.85rem}
.tiles dd{margin:2px 0 0;font-size:1.4rem;font-weight:650;font-variant-numeric:tabular-nums;
overflow-wrap:anywhere;line-height:1.25}
.tiles small{display:block;font-size:.8rem;font-weight:400;color:var(--soft)}
.verdict{background:var(--note);border-left:4px solid var(--c0);border-radius:8px;padding:12px 16px;
margin:16px 0 0}
.verdict p{margin:0;max-width:100ch}
.verdict p+p{margin-top:4px}
.state{display:inline-block;border:1px solid currentColor;border-radius:99px;padding:1px 11px;
font-size:.85rem;font-weight:600;vertical-align:3px;margin-left:10px;white-space:nowrap}
.good{color:var(--good)}.bad{color:var(--bad)}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,400px),1fr));gap:22px 30px}
figure{margin:0;break-inside:avoid}
figcaption{font-weight:600;margin-bottom:4px}
svg{display:block;width:100%;height:auto}
.grid{stroke:var(--grid);stroke-width:1}
.tick{fill:var(--soft);font-size:13px;font-family:inherit}
.curve{fill:none;stroke-width:2.2;stroke-linejoin:round;stroke-linecap:round}
.faint{stroke-width:1.2;opacity:.55}
.dashed{stroke-dasharray:6 5;stroke-width:1.6}
circle.dot.hollow{fill:var(--card);stroke:currentColor;stroke-width:2}
.dot{stroke:var(--card);stroke-width:1.2}
.keys{display:flex;flex-wrap:wrap;gap:2px 16px;list-style:none;margin:6px 0 0;padding:0;font-size:.88rem;
color:var(--soft);overflow-wrap:anywhere}
.keys b{color:var(--ink);font-variant-numeric:tabular-nums}
.swatch{display:inline-block;width:11px;height:11px;border-radius:3px;margin-right:6px}
.swatch.hollow{background:var(--card);border:2.5px solid currentColor}
.best{font-weight:700;color:var(--good)}
.bars{margin:0;display:grid;gap:6px 10px;align-items:center;font-size:.9rem;
grid-template-columns:minmax(76px,max-content) 1fr max-content}
.bars>div{display:contents}
.bars dt{overflow-wrap:anywhere;max-width:180px}h3+.keys,.keys+.bars{margin:0 0 8px}.bars+.scroll{margin-top:14px}
.bar{margin:0;display:flex;height:18px;border-radius:5px;overflow:hidden;background:var(--grid)}
.part{display:block;height:100%}
.end{margin:0;white-space:nowrap;color:var(--soft);font-variant-numeric:tabular-nums;text-align:right}
.c0{stroke:var(--c0)}.c1{stroke:var(--c1)}.c2{stroke:var(--c2)}.c3{stroke:var(--c3)}.c4{stroke:var(--c4)}
.c5{stroke:var(--c5)}.c6{stroke:var(--c6)}.c7{stroke:var(--c7)}
span.c0{background:var(--c0)}span.c1{background:var(--c1)}span.c2{background:var(--c2)}
span.c3{background:var(--c3)}span.c4{background:var(--c4)}span.c5{background:var(--c5)}
span.c6{background:var(--c6)}span.c7{background:var(--c7)}
.dot.c0{fill:var(--c0)}.dot.c1{fill:var(--c1)}.dot.c2{fill:var(--c2)}.dot.c3{fill:var(--c3)}
.dot.c4{fill:var(--c4)}.dot.c5{fill:var(--c5)}.dot.c6{fill:var(--c6)}.dot.c7{fill:var(--c7)}
circle.dot{stroke:var(--card)}
.hollow.c0{color:var(--c0)}.hollow.c1{color:var(--c1)}.hollow.c2{color:var(--c2)}.hollow.c3{color:var(--c3)}
.hollow.c4{color:var(--c4)}.hollow.c5{color:var(--c5)}.hollow.c6{color:var(--c6)}.hollow.c7{color:var(--c7)}
.scroll{overflow-x:auto;margin:0 0 10px}
table{border-collapse:collapse;min-width:min(100%,760px);font-size:.9rem}
th{font-weight:600;color:var(--soft);text-align:left;border-bottom:1.5px solid var(--line)}
td,th{padding:6px 22px 6px 0;vertical-align:top}
.cards td,.cards th{padding-right:15px}.cards .state{margin-left:0}
td{border-bottom:1px solid var(--line)}td code,td:first-child{white-space:nowrap}
td code.command{display:block;white-space:normal;text-align:left;clear:both}
tr:last-child td{border-bottom:0}
.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
code{font:.86rem/1.5 ui-monospace,"DejaVu Sans Mono",Menlo,monospace;overflow-wrap:anywhere}
.pairs{columns:340px;column-gap:34px;margin:0;font-size:.9rem}
.pairs div{display:flex;justify-content:space-between;gap:14px;border-bottom:1px solid var(--line);
padding:4px 0;break-inside:avoid}
.pairs dt{color:var(--soft)}
.pairs dd{margin:0;text-align:right;overflow-wrap:anywhere;min-width:0}
footer{padding-bottom:40px;color:var(--soft);font-size:.88rem}
@media (max-width:480px){section{border-radius:10px}.bars{grid-template-columns:minmax(56px,max-content) 1fr max-content;gap:6px 8px;font-size:.84rem}
.bars dt{max-width:96px}
.tick{font-size:16px}.tiles{grid-template-columns:1fr 1fr}.tiles dd{font-size:1.2rem}}
@media print{:root{color-scheme:light;--paper:#fff;--card:#fff;--ink:#000;--soft:#444;--line:#bbb;
--grid:#ddd;--note:#fff}body{font-size:10.5pt}nav{display:none}section{border:0;padding:0;margin:16pt 0}
.scroll{overflow:visible}*{-webkit-print-color-adjust:exact;print-color-adjust:exact}h2{break-after:avoid}}
)css";

/// Of tables whose rows become cards.
constexpr const char* kCards = R"css(
@media (max-width:WIDTH){.TABLE{min-width:0;width:100%}.TABLE thead{display:none}
.TABLE tr,.TABLE td{display:block}
.TABLE tbody{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,350px),1fr));gap:10px}
.TABLE tr{border:1px solid var(--line);border-radius:10px;padding:8px 12px}
.TABLE tr:last-child td,.TABLE td{border:0;padding:2px 0;text-align:right;white-space:normal;
overflow-wrap:anywhere;display:flow-root}
.TABLE td::before{content:attr(data-label);color:var(--soft);font-weight:400;float:left;max-width:55%;
margin-right:16px}
.TABLE tr td:first-child{font-weight:650;white-space:normal}}
)css";

/// `table`: a class; in windows up to `width`.
std::string cards_of(const std::string& table, const std::string& width) {
  return replaced(replaced(kCards, "TABLE", table), "WIDTH", width);
}

}  // namespace

std::string report_style() {
  return kStyle + cards_of("cards", "640px") + cards_of("wide", "1200px");
}

}  // namespace millrace::tools
