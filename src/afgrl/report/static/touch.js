"use strict";
// Two fingers zoom a map; Plotly knows one.

function listenToFingers(map) {
  const { holder } = map;
  const options = { capture: true, passive: false };
  let begin = null, // where the fingers were, and what was in view
    latest = null;

  holder.addEventListener(
    "touchstart",
    (event) => {
      if (event.touches.length !== 2) return;
      keep(event);
      map.pinched = true;
      document.dispatchEvent(new Event("touchend")); // ends what Plotly began with the first finger
      begin = { ...fingers(holder, event.touches), ...ranges(map) };
    },
    options,
  );
  holder.addEventListener(
    "touchmove",
    (event) => {
      if (begin === null || event.touches.length !== 2) return;
      keep(event);
      if (latest === null) {
        requestAnimationFrame(() => {
          if (begin !== null) follow(map, begin, latest);
          latest = null;
        });
      }
      latest = fingers(holder, event.touches);
    },
    options,
  );
  for (const end of ["touchend", "touchcancel"]) {
    holder.addEventListener(
      end,
      (event) => {
        if (!map.pinched) return;
        keep(event);
        if (begin !== null && latest !== null) follow(map, begin, latest);
        begin = latest = null;
        if (event.touches.length === 0) setTimeout(() => (map.pinched = false));
      },
      options,
    );
  }
}

function keep(event) {
  event.preventDefault();
  event.stopPropagation();
}

// How far apart two fingers are, and the middle between them as shares of the map's width and height.
function fingers(holder, [a, b]) {
  const box = holder.getBoundingClientRect();
  return {
    apart: Math.max(1, Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY)),
    across: ((a.clientX + b.clientX) / 2 - box.left) / box.width,
    down: ((a.clientY + b.clientY) / 2 - box.top) / box.height,
  };
}

// What was between the fingers stays there.
function follow(map, begin, now) {
  const factor = begin.apart / now.apart;
  const width = begin.x[1] - begin.x[0],
    height = begin.y[1] - begin.y[0];
  const left = begin.x[0] + begin.across * width - now.across * width * factor;
  const top = begin.y[1] - begin.down * height + now.down * height * factor;
  hideTip();
  return view(map, [left, left + width * factor], [top - height * factor, top]);
}
