# SPDX-License-Identifier: MIT
# Plots of what table.py left: gnuplot -e "dir='build/bench'" selftests/bench/plot.gp
# For the documentation, without those of all figures: -e "dir='build/bench'; docs='docs/plots'"
svg = "set terminal svg noenhanced font 'sans-serif,12' background 'white'"
png = "set terminal pngcairo noenhanced font ',11'"
if (exists("docs")) {
	@svg size 860,480
	name(plot) = docs."/".plot.".svg"
} else {
	name(plot) = dir."/".plot.".png"
}
set style fill solid 0.8
set tics nomirror

# Only what was measured.
there(plot) = int(system("test -s '".dir."/".plot.".dat' && echo 1 || echo 0"))

# Of all figures: a line of each.
if (!exists("docs") && there("ratios")) {
	stats dir."/ratios.dat" using 2 nooutput
	lines = STATS_records
	@png size 1200,120+17*lines
	set output name("ratios")
	set title "Value over floor, and the bar"
	set grid xtics
	set key above horizontal
	set logscale x
	set yrange [lines:-1]
	plot dir."/ratios.dat" using 2:($4 == 1 ? $0 : NaN):(1):2:($0-0.4):($0+0.4) \
			with boxxyerror linecolor 2 title "bar met", \
		"" using 2:($4 == 1 ? NaN : $0):(1):2:($0-0.4):($0+0.4) \
			with boxxyerror linecolor 7 title "missed", \
		"" using 3:0:ytic(1) with points pointtype 13 pointsize 1 linecolor "black" title "bar"
	set yrange [*:*]
}
if (!exists("docs") && there("rounds")) {
	set grid xtics
	set logscale x
	stats dir."/rounds.dat" using 2 nooutput
	lines = STATS_max + 1
	@png size 1200,120+17*lines
	set output name("rounds")
	set title "Each round of each figure, over the median of its rounds"
	set yrange [lines:-1]
	plot dir."/rounds.dat" using 3:2:ytic(1) with points pointtype 7 pointsize 0.7 notitle
	set yrange [*:*]
}
if (!exists("docs")) {
	unset logscale
	set ytics auto
	unset grid
	@png size 1200,700
}

set grid ytics
set key above horizontal
set rmargin 10
set style data histograms
set style histogram clustered
if (there("grcuda")) {
	set output name("grcuda")
	set title "The six GrCUDA programs: speed-up over synchronous execution"
	set xtics rotate by -35
	set yrange [0:*]
	plot dir."/grcuda.dat" using 2:xtic(1) title "inferred", "" using 3 title "by hand", \
		"" using 4 title "sequential calls"
}
if (there("access")) {
	set output name("access")
	set title "A program's loop over a buffer, between begin and end: rate over that on other memory"
	set xtics norotate
	set yrange [0:*]
	plot dir."/access.dat" using 2:xtic(1) title "private memory", \
		"" using 3 title "a memory file", \
		0.95 with lines dashtype 2 linecolor "black" title "bar"
}
if (there("cuda")) {
	set output name("cuda")
	set title "The six GrCUDA programs on an NVIDIA GPU: speed-up over synchronous execution"
	set xtics rotate by -35
	set yrange [0:*]
	plot dir."/cuda.dat" using 2:xtic(1) title "inferred", "" using 3 title "streams by hand", \
		"" using 4 title "graph by hand"
}
if (there("grcuda-sim")) {
	set output name("grcuda-sim")
	set title "GrCUDA's benchmarks on a simulated P100: speed-up over the authors' synchronous time"
	set xtics norotate
	set yrange [0:*]
	set key inside top right vertical
	plot dir."/grcuda-sim.dat" using 2:xtic(1) title "inferred", "" using 3 title "no schedule beats", \
		"" using 4 title "the authors' scheduler, measured", \
		"" using 5 title "synchronous, copies at the link's full rate"
	set key above horizontal
}
if (there("rodinia")) {
	set output name("rodinia")
	set title "Nine Rodinia programs on OpenCL through Arax: time over OpenCL's own"
	set xtics rotate by -35
	set yrange [0:*]
	plot dir."/rodinia.dat" using 2:xtic(1) title "Arax, OpenCL kernels", \
		"" using 3 title "Arax, C kernels on the same CPUs", \
		1.02 with lines dashtype 2 linecolor "black" title "bar"
}
if (there("outofcore")) {
	set output name("outofcore")
	set title "Data of half to four times the device's memory"
	set xtics rotate by -35
	set yrange [0:*]
	plot dir."/outofcore.dat" using 2:xtic(1) title "time a byte over that where all fits", \
		"" using 3 title "the same by hand", \
		"" using 4 title "bytes moved over the least"
}
if (there("sharing")) {
	set output name("sharing")
	set title "Applications on one device: tasks a second of each"
	set xtics rotate by -35
	set yrange [0:*]
	plot dir."/sharing.dat" using 2:xtic(1) title "alone", "" using 3 title "by time slices", \
		"" using 4 title "at once"
}
if (there("fair")) {
	set output name("fair")
	set title "Parts of a device's time: what each should have, and had"
	set xtics rotate by -35
	set yrange [0:100]
	plot dir."/fair.dat" using 2:xtic(1) title "should have, %", "" using 3 title "had, %"
}
if (there("graph")) {
	set output name("graph")
	set title "The dependency graph: ns a task, by the ranges that are live"
	set xtics rotate by -35
	set yrange [1:*]
	set logscale y
	plot dir."/graph.dat" using 2:xtic(1) title "to add it", "" using 3 title "to end it", \
		"" using 4 title "to copy its entry"
	unset logscale
}
if (there("cholesky")) {
	set output name("cholesky")
	set title "Tile Cholesky and LU on two CPUs: makespan, median and longest; above Arax's its ratio to StarPU's"
	set xtics norotate
	set xlabel "program and tile"
	set ylabel "ms"
	set yrange [0:*]
	set style histogram errorbars linewidth 1
	plot dir."/cholesky.dat" using 2:2:3:xtic(1) title "Arax", \
		"" using 4:4:5 title "StarPU dmdas", "" using 6:6:7 title "OpenMP tasks", \
		"" using 8:8:9 title "sequential", \
		"" using ($0 - 0.3):3:($10 > 0 ? sprintf("%.2f", $10) : "") with labels offset 0,0.7 notitle
	set style histogram clustered
	unset xlabel
	unset ylabel
}
if (there("simscale")) {
	set output name("simscale")
	set title "256 devices, 1,000 tenants, a million tasks in virtual time: CPU time a task, us"
	set xtics norotate
	set xlabel "policy"
	set yrange [0:70<*]
	set boxwidth 0.4
	set style histogram rowstacked
	plot dir."/simscale.dat" using 2:xtic(1) title "choosing tasks and devices", \
		"" using 3 title "all else", 60 with lines dashtype 2 linecolor "black" title "bar: a million in a minute"
	set boxwidth
	set style histogram clustered
	unset xlabel
}
if (there("elastic")) {
	set output name("elastic")
	set multiplot layout 1,2 title "Applications on any device, as there is room (elastic), and on one each (static)"
	set title "three cases: mean turnaround, ms; static over elastic"
	set xtics norotate
	set yrange [0:*]
	set offsets graph 0, graph 0, graph 0.15, graph 0
	set key inside top right vertical
	plot dir."/elastic.dat" index 0 using 2:xtic(1) title "elastic", "" index 0 using 3 title "static", \
		"" index 0 using 0:3:(sprintf("%.1f times", $4)) with labels offset 0,0.7 notitle
	unset offsets
	set title "random mixes: turnarounds, static over elastic"
	set xlabel "ratio"
	set ylabel "% of the mixes have at most this"
	set grid xtics ytics
	set xrange [0:*]
	set yrange [0:100]
	set arrow 1 from 1,0 to 1,100 nohead dashtype 2
	set label 1 "alike" at 0.9,90 right
	plot dir."/elastic.dat" index 1 using 1:2 with lines linewidth 2 notitle
	unset multiplot
	unset arrow 1
	unset label 1
	set xrange [*:*]
	set grid noxtics ytics
	unset xlabel
	unset ylabel
}
if (there("cholesky-sim")) {
	set output name("cholesky-sim")
	set title "Cholesky and LU on simulated GPUs + cores: makespan over the best bound"
	set xtics norotate
	set xlabel "tiles across"
	set logscale x
	set xtics (8, 12, 16, 24, 32, 48)
	set xrange [7.5:50]
	set yrange [1:*]
	set key inside top right vertical
	set style data linespoints
	stats dir."/cholesky-sim.dat" using 1 nooutput
	plot for [i=0:STATS_blocks-1] dir."/cholesky-sim.dat" index i using 1:2 title columnheader(1), \
		1.1 with lines dashtype 2 linecolor "black" title "bar"
	unset xlabel
	unset logscale
	set xtics auto
	set xrange [*:*]
}
if (there("overhead")) {
	set output name("overhead")
	set title "Task granularity: share of a task's time that its kernel takes"
	set xtics norotate
	set xlabel "length of the kernel, us"
	set logscale x
	set xrange [0.8:12000]
	set yrange [0:1.1]
	set key inside bottom right vertical
	set style data linespoints
	plot for [i=0:1] dir."/overhead.dat" index i using 1:2 title columnheader(1), \
		0.5 with lines dashtype 2 linecolor "black" title "50 %", \
		0.95 with lines dashtype 3 linecolor "black" title "95 %"
}
