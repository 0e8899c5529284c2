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
