# SPDX-License-Identifier: MIT
# Plots of what table.py left: gnuplot -e "dir='build/bench'" selftests/bench/plot.gp
set terminal pngcairo size 1200,700 noenhanced font ",11"
set grid ytics
set rmargin 14
set key top right

set output dir."/ratios.png"
set title "Value over floor, and the bar"
set logscale y
set style fill solid 0.8
set xtics rotate by -35
set yrange [0.1:100]
set boxwidth 0.9 relative
plot dir."/ratios.dat" using 2:xtic(1) title "measured" with boxes, \
	"" using 0:3 title "bar" with points pointtype 9 pointsize 1.5

unset rmargin
set output dir."/rounds.png"
set title "Each round of each figure (its own unit)"
set style data linespoints
unset xtics
set xtics norotate
set xlabel "round"
set logscale y
set yrange [*:*]
set key outside right
stats dir."/rounds.dat" using 1 nooutput
plot for [i=0:STATS_blocks-1] dir."/rounds.dat" index i using 1:2 title columnheader(1)

# Only where they were measured.
there(name) = int(system("test -s '".dir."/".name."' && echo 1 || echo 0"))
unset xlabel
unset logscale
set key top left inside
set style data histograms
set style histogram clustered
if (there("grcuda.dat")) {
	set output dir."/grcuda.png"
	set title "The six GrCUDA programs: speed-up over synchronous execution"
	set xtics rotate by -35
	set yrange [0:*]
	plot dir."/grcuda.dat" using 2:xtic(1) title "inferred", "" using 3 title "by hand", \
		"" using 4 title "sequential calls"
}
if (there("rodinia.dat")) {
	set output dir."/rodinia.png"
	set title "Nine Rodinia programs on OpenCL through Arax: time over OpenCL's own"
	set xtics rotate by -35
	set yrange [0:*]
	plot dir."/rodinia.dat" using 2:xtic(1) title "Arax, OpenCL kernels", \
		"" using 3 title "Arax, C kernels on the same CPUs", \
		1.02 with lines dashtype 2 title "bar"
}
if (there("outofcore.dat")) {
	set output dir."/outofcore.png"
	set title "Data of half to four times the device's memory"
	set xtics rotate by -35
	set yrange [0:*]
	plot dir."/outofcore.dat" using 2:xtic(1) title "time a byte over that where all fits", \
		"" using 3 title "the same by hand", \
		"" using 4 title "bytes moved over the least"
}
if (there("sharing.dat")) {
	set output dir."/sharing.png"
	set title "Applications on one device: tasks a second of each"
	set xtics rotate by -35
	set yrange [0:*]
	plot dir."/sharing.dat" using 2:xtic(1) title "alone", "" using 3 title "by time slices", \
		"" using 4 title "at once"
}
if (there("fair.dat")) {
	set output dir."/fair.png"
	set title "Parts of a device's time: what each should have, and had"
	set xtics rotate by -35
	set yrange [0:*]
	plot dir."/fair.dat" using 2:xtic(1) title "should have, %", "" using 3 title "had, %"
}
if (there("graph.dat")) {
	set output dir."/graph.png"
	set title "The dependency graph: ns a task, by the ranges that are live"
	set xtics rotate by -35
	set yrange [1:*]
	set logscale y
	plot dir."/graph.dat" using 2:xtic(1) title "to add it", "" using 3 title "to end it", \
		"" using 4 title "to copy its entry"
	unset logscale
}
if (there("cholesky-sim.dat")) {
	set output dir."/cholesky-sim.png"
	set title "Cholesky and LU on simulated GPUs + cores: makespan over the best bound"
	set xtics norotate
	set xlabel "tiles across"
	set yrange [1:*]
	set key top right
	set style data linespoints
	stats dir."/cholesky-sim.dat" using 1 nooutput
	plot for [i=0:STATS_blocks-1] dir."/cholesky-sim.dat" index i using 1:2 title columnheader(1), \
		1.1 with lines dashtype 2 title "bar"
	unset xlabel
}
if (there("overhead.dat")) {
	set output dir."/overhead.png"
	set title "Task granularity: share of a task's time that its kernel takes"
	set xtics norotate
	set xlabel "length of the kernel, us"
	set logscale x
	set yrange [0:1.05]
	set key bottom right
	set style data linespoints
	plot for [i=0:1] dir."/overhead.dat" index i using 1:2 title columnheader(1), \
		0.5 with lines dashtype 2 title "50 %", 0.95 with lines dashtype 3 title "95 %"
}
