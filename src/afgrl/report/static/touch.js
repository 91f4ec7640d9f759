"use strict";
// Pinch zoom with two fingers, which Plotly does not support.

function listenToTouch(plot) {
  const { holder } = plot;
  const options = { capture: true, passive: false };
  let start = null, // the fingers and the view when the pinch started
    latest = null; // the fingers now, if they moved since the last frame

  const began = (event) => {
    if (event.touches.length !== 2) return;
    consume(event);
    plot.pinching = true;
    document.dispatchEvent(new Event("touchend")); // ends the drag that Plotly started with the first finger
    start = { ...pinch(holder, event.touches), ...currentView(plot) };
  };
  const moved = (event) => {
    if (start === null || event.touches.length !== 2) return;
    consume(event);
    if (latest === null) {
      requestAnimationFrame(() => {
        if (start !== null) zoomToPinch(plot, start, latest);
        latest = null;
      });
    }
    latest = pinch(holder, event.touches);
  };
  const ended = (event) => {
    if (!plot.pinching) return;
    consume(event);
    if (start !== null && latest !== null) zoomToPinch(plot, start, latest);
    start = latest = null;
    if (event.touches.length === 0) setTimeout(() => (plot.pinching = false));
  };
  holder.addEventListener("touchstart", began, options);
  holder.addEventListener("touchmove", moved, options);
  holder.addEventListener("touchend", ended, options);
  holder.addEventListener("touchcancel", ended, options);
}

function consume(event) {
  event.preventDefault();
  event.stopPropagation();
}

// The distance of two fingers in pixels, and the point between them as a fraction of the plot's width and height.
function pinch(holder, [a, b]) {
  const box = holder.getBoundingClientRect();
  return {
    distance: Math.max(1, Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY)),
    across: ((a.clientX + b.clientX) / 2 - box.left) / box.width,
    down: ((a.clientY + b.clientY) / 2 - box.top) / box.height,
  };
}

// The point between the fingers stays between them.
function zoomToPinch(plot, start, now) {
  const factor = start.distance / now.distance;
  const width = start.x[1] - start.x[0],
    height = start.y[1] - start.y[0];
  const left = start.x[0] + start.across * width - now.across * width * factor;
  const top = start.y[1] - start.down * height + now.down * height * factor;
  hideTooltip();
  return setView(plot, [left, left + width * factor], [top - height * factor, top]);
}
